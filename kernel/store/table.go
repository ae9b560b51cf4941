package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/dgraph-io/ristretto/v2"
	"github.com/dgraph-io/ristretto/v2/z"
	"google.golang.org/protobuf/proto"
)

// checkTable reads a table and compares all its checksums.
func checkTable(path string, m badger.TableManifest, keys *badger.KeyRegistry) error {
	_, closeTable, err := openTable(path, m, keys)
	if err == nil {
		closeTable()
	}
	return err
}

// safely calls f and makes an error of a panic or of a page that cannot be read.
func safely(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			text, _, _ := strings.Cut(fmt.Sprint(r), "\n")
			err = fmt.Errorf("reading it failed: %s", text)
		}
	}()
	return f()
}

// openTable opens a table file by itself and compares all its checksums.
func openTable(path string, m badger.TableManifest, keys *badger.KeyRegistry) (t *table.Table, closeTable func(), err error) {
	opt := table.Options{ReadOnly: true, ChkMode: options.NoVerification, Compression: m.Compression, BlockSize: 4096}
	if keys != nil {
		if opt.DataKey, err = keys.DataKey(m.KeyID); err != nil {
			return nil, nil, err
		}
	}
	release := func() {}
	if opt.DataKey != nil {
		// Badger insists on a place for decrypted indices.
		cache, err := ristretto.NewCache(&ristretto.Config[uint64, *fb.TableIndex]{NumCounters: 64, MaxCost: indexCacheBytes, BufferItems: 64})
		if err != nil {
			return nil, nil, err
		}
		opt.IndexCache, release = cache, cache.Close
	}
	// Badger names a table by its file.
	mapped, err := z.OpenMmapFile(path, os.O_RDONLY, 0)
	if err != nil {
		release()
		return nil, nil, err
	}
	unmap := func() {
		_ = errors.Join(z.Munmap(mapped.Data), mapped.Fd.Close())
		release()
	}
	err = safely(func() (err error) {
		if err = checkFooter(mapped.Data); err != nil {
			return err
		}
		if t, err = table.OpenTable(mapped, opt); err != nil {
			return err
		}
		return verifyBlocks(t)
	})
	if err != nil {
		unmap()
		return nil, nil, err
	}
	return t, unmap, nil
}

// verifyBlocks compares the checksums of all blocks. Where a block's own lengths are damaged Badger has no block, and
// stumbles over that while it words its error.
func verifyBlocks(t *table.Table) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case runtime.Error:
			if !strings.Contains(r.Error(), "nil pointer") {
				panic(r)
			}
			err = fmt.Errorf("the lengths of a block: %w", errChecksum)
		default:
			panic(r)
		}
	}()
	return t.VerifyChecksum()
}

// checkFooter checks what Badger takes on trust, and ends the process over, when it opens a table: from the end, the
// length of the checksum, the checksum, the length of the index and the index.
func checkFooter(b []byte) error {
	cut := func(what string) error { return fmt.Errorf("%s: %w", what, errChecksum) }
	field := func(n int) ([]byte, bool) {
		if n < 0 || n > len(b) {
			return nil, false
		}
		f := b[len(b)-n:]
		b = b[:len(b)-n]
		return f, true
	}
	length := func() (int, bool) {
		f, ok := field(4)
		if !ok {
			return 0, false
		}
		return int(int32(binary.BigEndian.Uint32(f))), true
	}
	n, ok := length()
	if !ok {
		return cut("its end")
	}
	sum, ok := field(n)
	if !ok {
		return cut("the checksum of its index")
	}
	var expected pb.Checksum
	if err := proto.Unmarshal(sum, &expected); err != nil {
		return cut("the checksum of its index")
	}
	if n, ok = length(); !ok {
		return cut("the length of its index")
	}
	index, ok := field(n)
	if !ok {
		return cut("the length of its index")
	}
	return y.VerifyChecksum(index, &expected)
}
