package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// scanLog walks through the log from its beginning, without a directory. It
// calls visit for every intact block, and damaged for every stretch in which
// there is none, until visit returns an error.
//
// After damage it looks for the next intact block, by its magic. A hostile
// file could make every byte look like the beginning of a long block; so the
// work is bounded by a multiple of the file's size.
func scanLog(f io.ReaderAt, size int64, visit func(at pointer, h header, data []byte) error, damaged func(from, to int64, why error)) error {
	var buf []byte
	work := 16*size + 64<<20
	off := int64(firstBlock)
	badFrom, why := int64(-1), error(nil)
	for off < size {
		h, block, err := readAny(f, size, off, &buf)
		var dev *ioError
		if errors.As(err, &dev) {
			return fmt.Errorf("read block at offset %d: %w", off, dev.err)
		}
		if work -= int64(len(block)); work < 0 {
			return &CorruptError{Offset: off, What: "log", Detail: "too much that looks like blocks and is not"}
		}
		if err != nil {
			if badFrom < 0 {
				badFrom, why = off, err
			}
			next, err := findMagic(f, size, off+1)
			if err != nil {
				return err
			}
			off = next
			continue
		}
		if badFrom >= 0 {
			damaged(badFrom, off, why)
			badFrom = -1
		}
		at := pointer{off, uint32(len(block))}
		if err := visit(at, h, block[blockHeader:]); err != nil {
			return err
		}
		off += int64(len(block))
	}
	if badFrom >= 0 {
		damaged(badFrom, size, why)
	}
	return nil
}

// readAny reads and checks the block at off, of whatever type. The block is
// returned as far as it was read even if it is damaged.
func readAny(f io.ReaderAt, size, off int64, buf *[]byte) (header, []byte, error) {
	b, err := readRaw(f, size, off, blockHeader, *buf)
	if err != nil {
		return header{}, nil, err
	}
	h, err := parseHeader(b)
	if err != nil {
		return h, b, err
	}
	b, err = readRaw(f, size, off, int64(blockHeader+h.stored), b)
	if err != nil {
		return h, nil, err
	}
	*buf = b
	_, _, err = openBlock(b, off, h.typ)
	return h, b, err
}

// findMagic returns the offset of the next magic at or after off, or size.
func findMagic(f io.ReaderAt, size, off int64) (int64, error) {
	want := binary.LittleEndian.AppendUint32(nil, blockMagic)
	buf := make([]byte, 64<<10)
	for off < size {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), size-off)], off)
		if err != nil && err != io.EOF {
			return 0, fmt.Errorf("read at offset %d: %w", off, err)
		}
		if i := bytes.Index(buf[:n], want); i >= 0 {
			return off + int64(i), nil
		}
		if n < len(want) {
			break
		}
		off += int64(n - len(want) + 1)
	}
	return size, nil
}

// scanForRoot returns the last intact root in the log, or nil.
func scanForRoot(f io.ReaderAt, size int64) (*root, error) {
	var last *root
	err := scanLog(f, size, func(at pointer, h header, _ []byte) error {
		if h.typ == blockRoot {
			if r, err := readRoot(f, size, at); err == nil {
				last = r
			}
		}
		return nil
	}, func(int64, int64, error) {})
	return last, err
}
