package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// A block is a header of 20 bytes and data:
//
//	0   magic    uint32
//	4   type     uint8
//	5   codec    uint8
//	6   zero     uint16
//	8   stored   uint32   bytes of data that follow
//	12  raw      uint32   bytes of data when decompressed
//	16  crc      uint32   CRC-32C of the block's offset (uint64), the header
//	                      up to here, and the data
//
// All integers are little endian. The offset takes part in the checksum, so a
// block that lies where it was not written (a misdirected write, the image of
// another file) is not taken for one.

// checksum computes the checksum of the block at off, whose header up to the
// checksum, and data, are given.
func checksum(off int64, header, data []byte) uint32 {
	var o [8]byte
	binary.LittleEndian.PutUint64(o[:], uint64(off))
	crc := crc32.Update(0, castagnoli, o[:])
	crc = crc32.Update(crc, castagnoli, header[:16])
	return crc32.Update(crc, castagnoli, data)
}

// packer appends blocks to a buffer that will be written at a known offset.
// The zero packer compresses nothing.
type packer struct {
	base int64 // offset in the file of out[0]
	out  []byte
	zstd *zstd.Encoder // nil for s2
	on   bool          // whether to compress
	tmp  []byte
}

// end returns the offset in the file at which the next block will stand.
func (p *packer) end() int64 { return p.base + int64(len(p.out)) }

// add appends a block. Data that compression does not make smaller by a
// sixteenth is stored as it is, which is quicker to read.
func (p *packer) add(typ blockType, data []byte) pointer {
	c, stored := codecRaw, data
	if p.on && len(data) >= 64 {
		if p.zstd != nil {
			p.tmp = p.zstd.EncodeAll(data, p.tmp[:0])
			c, stored = codecZstd, p.tmp
		} else {
			if n := s2.MaxEncodedLen(len(data)); cap(p.tmp) < n {
				p.tmp = make([]byte, n)
			}
			stored = s2.Encode(p.tmp[:cap(p.tmp)], data)
			c = codecS2
		}
		if len(stored) > len(data)-len(data)/16 {
			c, stored = codecRaw, data
		}
	}
	return p.append(typ, c, len(data), stored)
}

func (p *packer) append(typ blockType, c codec, raw int, stored []byte) pointer {
	off := p.end()
	var h [blockHeader]byte
	binary.LittleEndian.PutUint32(h[0:], blockMagic)
	h[4], h[5] = byte(typ), byte(c)
	binary.LittleEndian.PutUint32(h[8:], uint32(len(stored)))
	binary.LittleEndian.PutUint32(h[12:], uint32(raw))
	binary.LittleEndian.PutUint32(h[16:], checksum(off, h[:], stored))
	p.out = append(append(p.out, h[:]...), stored...)
	return pointer{off, uint32(blockHeader + len(stored))}
}

// header is a block's header, decoded.
type header struct {
	typ    blockType
	codec  codec
	stored int
	raw    int
}

// parseHeader checks that b begins with a header that makes sense.
func parseHeader(b []byte) (header, error) {
	h := header{
		typ:    blockType(b[4]),
		codec:  codec(b[5]),
		stored: int(binary.LittleEndian.Uint32(b[8:])),
		raw:    int(binary.LittleEndian.Uint32(b[12:])),
	}
	switch {
	case binary.LittleEndian.Uint32(b) != blockMagic:
		return h, errors.New("there is no block")
	case h.typ == 0 || h.typ >= numBlockTypes:
		return h, fmt.Errorf("unknown %v", h.typ)
	case h.codec > codecZstd:
		return h, fmt.Errorf("unknown compression %d", h.codec)
	case h.raw > maxRaw || h.stored > h.raw || h.codec == codecRaw && h.stored != h.raw:
		return h, fmt.Errorf("impossible lengths %d and %d", h.stored, h.raw)
	}
	return h, nil
}

// openBlock checks the block b, which stands at off, and returns its data,
// still compressed.
func openBlock(b []byte, off int64, want blockType) (header, []byte, error) {
	if len(b) < blockHeader {
		return header{}, nil, errors.New("reference too short for a block")
	}
	h, err := parseHeader(b)
	if err != nil {
		return h, nil, err
	}
	data := b[blockHeader:]
	if h.stored != len(data) {
		return h, nil, fmt.Errorf("length %d where %d was expected", h.stored, len(data))
	}
	if got := checksum(off, b, data); got != binary.LittleEndian.Uint32(b[16:]) {
		return h, nil, errors.New("checksum does not match")
	}
	if h.typ != want {
		return h, nil, fmt.Errorf("a %v block where a %v block was expected", h.typ, want)
	}
	return h, data, nil
}

// zstdDecoder is shared: it keeps no state between calls.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxRaw))
})

// decompress returns the data of a block, in dst if it is large enough. Data
// that was not compressed is returned as it is.
func decompress(dst []byte, h header, data []byte) ([]byte, error) {
	switch h.codec {
	case codecRaw:
		return data, nil
	case codecS2:
		if n, err := s2.DecodedLen(data); err != nil || n != h.raw {
			return nil, errors.New("wrong length of compressed data")
		}
		return s2.Decode(grow(dst, h.raw), data)
	case codecZstd:
		z, err := zstdDecoder()
		if err != nil {
			return nil, err
		}
		out, err := z.DecodeAll(data, grow(dst, h.raw)[:0])
		if err == nil && len(out) != h.raw {
			err = errors.New("wrong length of compressed data")
		}
		return out, err
	}
	return nil, fmt.Errorf("unknown compression %d", h.codec)
}

// grow returns a slice of length n, of b's memory if that is large enough.
func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// readBlock reads, checks and decompresses the block at p. The size of the
// file bounds what a reference can make it allocate.
func readBlock(r io.ReaderAt, size int64, p pointer, want blockType) ([]byte, error) {
	b, err := readRaw(r, size, p.off, int64(p.len), nil)
	if err != nil {
		return nil, corruptAt(err, p.off, want.String()+" block")
	}
	h, data, err := openBlock(b, p.off, want)
	if err == nil {
		data, err = decompress(nil, h, data)
	}
	if err != nil {
		return nil, corruptAt(err, p.off, want.String()+" block")
	}
	return data, nil
}

// errBeyond is what is wrong with a reference past the end of the file.
var errBeyond = errors.New("reference beyond the end of the file")

// readRaw reads n bytes at off, in buf if it is large enough.
func readRaw(r io.ReaderAt, size, off, n int64, buf []byte) ([]byte, error) {
	if off < firstBlock || n < 0 || n > size || off > size-n {
		return nil, errBeyond
	}
	buf = grow(buf, int(n))
	if _, err := r.ReadAt(buf, off); err != nil {
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil, errBeyond
		}
		return nil, &ioError{err}
	}
	return buf, nil
}

// ioError marks a failure of the device, which is not damage to the file.
type ioError struct{ err error }

func (e *ioError) Error() string { return e.err.Error() }
func (e *ioError) Unwrap() error { return e.err }

// corruptAt turns what is wrong with a structure into a [*CorruptError]. A
// failure of the device stays what it is.
func corruptAt(err error, off int64, what string) error {
	var dev *ioError
	if errors.As(err, &dev) {
		return fmt.Errorf("read %s at offset %d: %w", what, off, dev.err)
	}
	var already *CorruptError
	if errors.As(err, &already) {
		return err
	}
	detail := err.Error()
	if errors.Is(err, ErrCorrupt) {
		detail = detail[min(len(detail), len(ErrCorrupt.Error())+2):]
	}
	return &CorruptError{Offset: off, What: what, Detail: detail}
}
