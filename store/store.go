// Package store keeps the history of a test, with its metadata and its results,
// in one crash-safe file: a block log. It also keeps the directory of runs.
//
// A history is written while the test runs:
//
//	w, err := store.Create(path, store.Options{})
//	w.SetMeta(histories.MapOf(…))
//	for … {
//		if err := w.Append(&op); err != nil { … } // the disk is full, say
//	}
//	err = w.Close()
//
// and read at any time, also by other processes while it is being written:
//
//	f, err := store.Open(path, store.Options{})
//	h := f.History()            // a histories.History; nothing is read yet
//	for op, err := range h.All() { … }
//
// # Guarantees
//
// An operation is sealed, that is durable and visible to readers, when its
// chunk is: at 16,384 operations or within a second, whichever comes first. A
// crash loses at most what was not sealed. When Append, Flush or Close report
// an error, everything sealed before stays readable. Readers see whole chunks,
// never a torn state. A damaged or hostile file gives errors that name the
// place; it never makes the reader panic, hang, or allocate without bound.
//
// # The file
//
// FORMAT.md describes every byte. In short:
//
//	0      ┌──────────────────────────────────────────────┐
//	       │ header: magic, version, id, checksum         │ one sector each,
//	4096   ├──────────────────────────────────────────────┤ 4096 bytes
//	       │ root slot 0: sequence, offset, length, crc   │
//	8192   ├──────────────────────────────────────────────┤
//	       │ root slot 1                                  │
//	12288  ├──────────────────────────────────────────────┤
//	       │ block: type, codec, lengths, crc │ data      │ appended,
//	       │ block …                                      │ never changed
//	       └──────────────────────────────────────────────┘
//
// A commit appends the columns of one or more chunks, the changed path of the
// directory of chunks and a root block that refers to the directory, the
// metadata and the results; syncs; writes the root slot that holds the older
// root; and syncs again.
//
// Recovery rule: of the two slots, the one with the higher sequence number
// that is intact and leads to an intact root block is the state of the file. A
// commit that was cut short leaves the other slot, and so the state before it.
// If neither is usable, the last intact root block in the log is.
package store

import (
	"errors"
	"reflect"
	"time"

	"github.com/jepsentest/go/histories"
)

// Errors that callers may test for, with errors.Is.
var (
	// ErrLocked: another writer, in this process or another, has the file open.
	ErrLocked = errors.New("another writer has the file open")
	// ErrCorrupt: something in the file contradicts its checksum or the format.
	// It is wrapped in a [*CorruptError], which says where.
	ErrCorrupt = errors.New("damaged")
	// ErrNotBlockLog: the file does not begin as a block log does.
	ErrNotBlockLog = errors.New("not a block log")
	// ErrVersion: the file was written by a later version of this package.
	ErrVersion = errors.New("unknown version of the format")
	// ErrClosed: the Writer or File has been closed.
	ErrClosed = errors.New("closed")
	// ErrReadOnlyHistory: operations cannot be appended to a file that was
	// opened for re-analysis.
	ErrReadOnlyHistory = errors.New("the history of a reopened file is complete")
	// ErrUnencodable: a value cannot be stored. The error names the path to it.
	ErrUnencodable = errors.New("value cannot be stored")
)

// Options say how a file is written and read. The zero Options are good ones.
type Options struct {
	_ struct{}

	// ChunkOps is the number of operations after which a chunk is sealed; 0
	// means [histories.ChunkSize], and 65,536 is the most. Larger chunks are a
	// little smaller on disk; all of a chunk is decoded to read one operation.
	ChunkOps int
	// SealAfter is the time within which an operation becomes durable even if
	// its chunk is not full; 0 means one second. The chunk is handed to the
	// disk after three quarters of it.
	SealAfter time.Duration
	// Queue is how many full chunks may wait for the disk before Append waits
	// too; 0 means 8. Each takes about a quarter of a megabyte.
	Queue int
	// Names are the names of the named processes of the history to be written.
	Names histories.Names
	// Codecs encode and decode the custom values of the history. Reading a
	// custom value without its codec gives a tagged value: its tag is the
	// codec's name, its value the stored bytes.
	Codecs []Codec
	// Cache holds decoded chunks. Nil means a cache that all files of the
	// process share, with [DefaultBudget] bytes.
	Cache *Cache
}

// Codec stores Go values of one type (see [histories.Custom]). Make one with [NewCodec].
type Codec struct {
	name   string
	typ    reflect.Type
	append func(dst []byte, v any) ([]byte, error)
	decode func(data []byte) (any, error)
}

// NewCodec makes a codec for values of type T. The name is stored in the file
// with every value and must not change. encode appends a value to dst; decode
// is its inverse, must not keep data, and must cope with data that was damaged.
func NewCodec[T any](name string, encode func(dst []byte, v T) ([]byte, error), decode func(data []byte) (T, error)) Codec {
	return Codec{
		name:   name,
		typ:    reflect.TypeFor[T](),
		append: func(dst []byte, v any) ([]byte, error) { return encode(dst, v.(T)) },
		decode: func(data []byte) (any, error) { return decode(data) },
	}
}

func (o Options) withDefaults() Options {
	if o.ChunkOps <= 0 {
		o.ChunkOps = histories.ChunkSize
	}
	o.ChunkOps = min(o.ChunkOps, maxChunkOps)
	if o.SealAfter <= 0 {
		o.SealAfter = time.Second
	}
	if o.Queue <= 0 {
		o.Queue = 8
	}
	return o
}
