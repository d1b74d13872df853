package jepsentest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// runLog is the log of a run: a file, and whoever listens.
type runLog struct {
	mu     sync.Mutex
	file   *os.File
	listen func(string)
	start  time.Time
	err    error // the first failure to write
}

func openLog(path string, listen func(string)) (*runLog, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("open the log of the run: %w", err)
	}
	return &runLog{file: f, listen: listen, start: time.Now()}, nil
}

func (l *runLog) printf(format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), "\n")
	l.mu.Lock()
	if l.file != nil {
		_, err := fmt.Fprintf(l.file, "%s %8.3f %s\n", time.Now().Format("15:04:05.000"), time.Since(l.start).Seconds(), text)
		if l.err == nil {
			l.err = err
		}
	}
	l.mu.Unlock()
	if l.listen != nil {
		l.listen(text)
	}
}

// close ends the file. Abandoned goroutines may go on logging; that is not kept.
func (l *runLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.file.Close()
	l.file = nil
	if l.err != nil {
		err = l.err
	}
	if err != nil {
		return fmt.Errorf("write the log of the run: %w", err)
	}
	return nil
}
