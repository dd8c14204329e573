package journal

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// overwriteMetaPage fills the page that pick names with rubbish.
func overwriteMetaPage(t *testing.T, j *Journal, pick func(metaPage) int64) {
	t.Helper()
	f, err := os.OpenFile(j.Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 2*pageSize)
	if _, err := f.ReadAt(buf, 0); err != nil {
		t.Fatal(err)
	}
	meta, _ := newestMeta(buf)
	if _, err := f.WriteAt(bytes.Repeat([]byte{0x5a}, pageSize), pick(meta)*pageSize); err != nil {
		t.Fatal(err)
	}
}

// One damaged meta page is what a torn write leaves: bbolt goes by the other.
func TestOpen_MetaPages(t *testing.T) {
	for name, pages := range map[string][]int64{"first": {0}, "second": {1}, "both": {0, 1}} {
		t.Run(name, func(t *testing.T) {
			j := New(t.TempDir(), Options{Preallocate: -1})
			for range 3 {
				fillRing(t, j, 1)
			}
			for _, page := range pages {
				overwriteMetaPage(t, j, func(metaPage) int64 { return page })
			}
			_, viewErr := try(t, j)
			if want := map[bool]Kind{true: "", false: KindCorrupt}[len(pages) == 1]; KindOf(viewErr) != want {
				t.Errorf("got %v, want kind %q", viewErr, want)
			}
		})
	}
}

func TestPreflight(t *testing.T) {
	good := metaPage{pageSize: pageSize, root: 3, freelist: 2, pages: 4}
	for want, change := range map[string]func(*metaPage){
		"":                               func(*metaPage) {},
		"its pages have 16384 bytes":     func(m *metaPage) { m.pageSize = 16384 },
		"it is truncated":                func(m *metaPage) { m.pages = 5 },
		"its root page 1":                func(m *metaPage) { m.root = 1 },
		"its root page 4":                func(m *metaPage) { m.root = 4 },
		"it has no free list":            func(m *metaPage) { m.freelist = noFreelist },
		"its free list page 0":           func(m *metaPage) { m.freelist = 0 },
		"its free list page 9 is not on": func(m *metaPage) { m.freelist = 9 },
	} {
		m := good
		change(&m)
		err := m.check(4 * pageSize)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := preflight("x", bytes.NewReader(nil), 2*pageSize); err == nil {
		t.Error("a file that cannot be read passes")
	}
}

// Of two valid meta pages the newer counts, and an invalid one never.
func TestNewestMeta(t *testing.T) {
	buf := fixture(t)[:2*pageSize]
	newest, ok := newestMeta(buf)
	if !ok {
		t.Fatal("no meta page is valid")
	}
	swapped := append(bytes.Clone(buf[pageSize:]), buf[:pageSize]...)
	if got, ok := newestMeta(swapped); !ok || got != newest {
		t.Errorf("got %+v, want %+v", got, newest)
	}
	for i := 16; i < 16+64; i++ {
		for page := range 2 {
			flipped := bytes.Clone(buf)
			flipped[page*pageSize+i] ^= 1
			other, _ := parseMeta(buf[(1-page)*pageSize : (2-page)*pageSize])
			if got, ok := newestMeta(flipped); !ok || got != other {
				t.Errorf("byte %d of page %d: got %+v, want the other page", i, page, got)
			}
		}
	}
}
