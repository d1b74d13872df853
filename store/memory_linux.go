package store

import (
	"bufio"
	"os"
	"strconv"
	"strings"
)

// systemMemory returns the memory that the process may still take, as far as
// the kernel says, or 0.
func systemMemory() int64 {
	avail := int64(0)
	if f, err := os.Open("/proc/meminfo"); err == nil {
		defer f.Close()
		for s := bufio.NewScanner(f); s.Scan(); {
			if rest, ok := strings.CutPrefix(s.Text(), "MemAvailable:"); ok {
				kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				avail = kib << 10
				break
			}
		}
	}
	const cgroup = "/sys/fs/cgroup/memory."
	limit, used := readNumber(cgroup+"max"), readNumber(cgroup+"current")
	if left := limit - used; limit > 0 && left > 0 && (avail == 0 || left < avail) {
		avail = left
	}
	return avail
}

// readNumber returns the number in a file, or 0 if there is none.
func readNumber(path string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}
