//go:build !linux

package cluster

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
)

// processStarted asks ps(1) when a process started, to the second.
func processStarted(pid int) (string, processState) {
	out, err := exec.Command("ps", "-o", "lstart=", "-p", strconv.Itoa(pid)).Output()
	started := strings.TrimSpace(string(out))
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && started == "":
		return "", processGone // ps ran and found no such process
	case err != nil || started == "":
		return "", processUnknown
	default:
		return started, processExists
	}
}

// processNamespace is empty: there is one for the whole machine.
func processNamespace() string { return "" }
