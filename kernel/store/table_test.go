package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	badger "github.com/dgraph-io/badger/v4"
)

// A flipped bit anywhere in a table is told by name, also in the lengths that Badger reads blocks by.
func TestFlippedBitsOfATable(t *testing.T) {
	s := specimenOf(t, false)
	tables, err := filepath.Glob(filepath.Join(s.dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	whole, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	// Badger names a table by its file.
	path := filepath.Join(memoryDir(t), filepath.Base(tables[0]))
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkTable(path, badger.TableManifest{}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flip := func(at int, bit byte) {
		if _, err := f.WriteAt([]byte{whole[at] ^ bit}, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
	// A block ends in the length of its checksum: four bytes somewhere in the first blocks, and anything further on.
	lengths := 0
	for at := 0; at < len(whole); at += 1 + 97*(at/(12<<10)) {
		flip(at, 0x80)
		err := checkTable(path, badger.TableManifest{}, nil)
		flip(at, 0)
		if err == nil || strings.Contains(err.Error(), "nil pointer") {
			t.Fatalf("byte %d: %v", at, err)
		}
		if errors.Is(err, errChecksum) && strings.Contains(err.Error(), "the lengths of a block") {
			lengths++
		}
	}
	if lengths == 0 {
		t.Error("no length of a block was met")
	}
}
