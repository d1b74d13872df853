package jepsentest

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const historyFile = "history.jt"

// makeRunDir makes <root>/<name>/<time>.
func makeRunDir(root, name string, t time.Time) (string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	for i := 0; ; i++ {
		dir := filepath.Join(root, name, t.Add(time.Duration(i)*time.Millisecond).UTC().Format("20060102T150405.000Z"))
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return "", err
		}
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			return dir, nil
		}
		if !os.IsExist(err) || i > 1000 {
			return "", fmt.Errorf("make %s: %w", dir, err)
		}
	}
}
