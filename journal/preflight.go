package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// What bbolt writes into its two meta pages, in the byte order of the machine.
const (
	metaMagic   = 0xED0CDAED
	metaVersion = 2
	noFreelist  = ^uint64(0)
	firstPage   = 2 // the pages before it are the meta pages
)

// metaPage is what a meta page says.
type metaPage struct {
	pageSize uint32
	root     uint64 // page of the root bucket
	freelist uint64 // page of the free list
	pages    uint64 // number of pages in use or once in use
	txid     uint64 // number of the last transaction
}

// preflight looks at the two meta pages without mapping anything, because bbolt
// believes what they say: a file shorter than they claim would be a memory fault
// in the middle of a transaction.
func preflight(path string, r io.ReaderAt, size int64) error {
	if size == 0 {
		return corrupt(opRead, path, errors.New("the file is empty; a journal never is"))
	}
	if size < 2*pageSize {
		return corrupt(opRead, path, fmt.Errorf("the file has %d bytes, too few for a journal", size))
	}
	buf := make([]byte, 2*pageSize)
	if _, err := r.ReadAt(buf, 0); err != nil {
		return err
	}
	meta, ok := newestMeta(buf)
	if !ok {
		return corrupt(opRead, path, errors.New("neither of its two meta pages is valid"))
	}
	if err := meta.check(size); err != nil {
		return corrupt(opRead, path, err)
	}
	return nil
}

// newestMeta returns the meta page that bbolt would go by.
func newestMeta(buf []byte) (metaPage, bool) {
	a, okA := parseMeta(buf[:pageSize])
	b, okB := parseMeta(buf[pageSize:])
	if okB && (!okA || b.txid > a.txid) {
		return b, true
	}
	return a, okA
}

// parseMeta reads a meta page and reports whether it is whole.
func parseMeta(page []byte) (metaPage, bool) {
	const header, checked = 16, 56
	m := page[header:]
	sum := fnv.New64a()
	sum.Write(m[:checked])
	u32, u64 := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	ok := u32(m) == metaMagic && u32(m[4:]) == metaVersion && u64(m[checked:]) == sum.Sum64()
	return metaPage{
		pageSize: u32(m[8:]),
		root:     u64(m[16:]),
		freelist: u64(m[32:]),
		pages:    u64(m[40:]),
		txid:     u64(m[48:]),
	}, ok
}

// check compares what the meta page says with the size of the file.
func (m metaPage) check(size int64) error {
	switch {
	case m.pageSize != pageSize:
		return fmt.Errorf("its pages have %d bytes, those of a journal %d", m.pageSize, pageSize)
	case m.pages > uint64(size)/pageSize:
		return fmt.Errorf("it is truncated: it has %d bytes of %d pages of %d bytes", size, m.pages, pageSize)
	case m.root < firstPage || m.root >= m.pages:
		return fmt.Errorf("its root page %d is not one of its %d pages", m.root, m.pages)
	case m.freelist == noFreelist:
		return errors.New("it has no free list; a journal always has one")
	case m.freelist < firstPage || m.freelist >= m.pages:
		return fmt.Errorf("its free list page %d is not one of its %d pages", m.freelist, m.pages)
	}
	return nil
}
