package cluster

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// startTimeField is the index of starttime among the fields of /proc/PID/stat that follow the
// command's closing parenthesis: field 22 of proc(5), the first of these being field 3.
const startTimeField = 22 - 3

// processStarted identifies a process by its start in clock ticks after boot and by the boot. A
// zombie counts as gone: it will never clean up.
func processStarted(pid int) (string, processState) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return "", processGone
	}
	if err != nil {
		return "", processUnknown
	}
	// The command may contain anything, also parentheses.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) <= startTimeField {
		return "", processUnknown
	}
	if f[0] == "Z" || f[0] == "X" {
		return "", processGone
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", processExists
	}
	return strings.TrimSpace(string(boot)) + ":" + f[startTimeField], processExists
}

// processNamespace names the namespace in which this process' id was given.
func processNamespace() string {
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return ns
}
