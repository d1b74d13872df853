package store

import (
	"io"
	"os"
)

// device is what the log is kept on: a file, or in tests something that fails
// as files do.
//
// WriteAt makes no promise about what survives a crash, in which order or in
// which part. After Sync returns nil, all earlier writes survive.
type device interface {
	io.ReaderAt
	io.WriterAt
	Size() (int64, error)
	Sync() error
	Close() error
}

type fileDevice struct{ *os.File }

func (f fileDevice) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
