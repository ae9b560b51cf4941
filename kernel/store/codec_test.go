package store

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func FuzzGroup(f *testing.F) {
	f.Add(encodeGroup(7, []change{{Created, "/a", 0}, {Updated, "/b", 3}, {Deleted, "/c", 4}, {kind: Void}}))
	f.Add([]byte{1, 1, 200})
	f.Fuzz(func(t *testing.T, b []byte) {
		first, changes, err := decodeGroup(b)
		if err != nil {
			return
		}
		first2, changes2, err := decodeGroup(encodeGroup(first, changes))
		if err != nil || first2 != first || !reflect.DeepEqual(changes, changes2) {
			t.Errorf("%d %v became %d %v, %v", first, changes, first2, changes2, err)
		}
	})
}

func FuzzValue(f *testing.F) {
	f.Add([]byte("value"), int64(5), uint64(7))
	f.Add([]byte{}, int64(0), uint64(0))
	f.Fuzz(func(t *testing.T, value []byte, expires int64, copied uint64) {
		stored, marks := encodeValue(value, expires, copied)
		got, revision, gotExpires, err := decodeValue(stored, marks, 99)
		want := copied
		if copied == 0 {
			want = 99
		}
		if err != nil || !bytes.Equal(got, value) || revision != want || gotExpires != expires {
			t.Errorf("got %q, %d, %d, %v", got, revision, gotExpires, err)
		}
		for _, marks := range []byte{0, markExpires, markCopied, markExpires | markCopied} {
			_, _, _, _ = decodeValue(value, marks, 1) // whatever is on disk, it must not panic
		}
	})
}

func FuzzHistoryKey(f *testing.F) {
	f.Add(historyKey(1))
	f.Fuzz(func(t *testing.T, b []byte) {
		if last, err := parseHistoryKey(b); err == nil && !bytes.Equal(historyKey(last), b) {
			t.Errorf("%x became %x", b, historyKey(last))
		}
	})
}

func FuzzBuried(f *testing.F) {
	f.Add([]byte{formatVersion, 7, 2, '/', 'a', 200, 1, 0})
	f.Add([]byte{formatVersion, 1, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		graves, err := decodeBuried(b)
		if err != nil {
			return
		}
		again, err := decodeBuried(encodeBuried(graves))
		if err != nil || !reflect.DeepEqual(graves, again) {
			t.Errorf("%v became %v, %v", graves, again, err)
		}
	})
}

func FuzzManifestAndFooter(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0})
	f.Add([]byte("\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = checkFooter(b) // whatever is on disk, it must not panic
		path := filepath.Join(t.TempDir(), "MANIFEST")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if good, size, err := manifestEnd(file); err == nil && (good > size || size != int64(len(b))) {
			t.Errorf("%d of %d bytes fit", good, size)
		}
	})
}
