package store

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// TestBackupFigures prints what a backup and a restore of 100,000 objects take; to be asked for.
func TestBackupFigures(t *testing.T) {
	if os.Getenv("STORE_TEST_FIGURES") == "" {
		t.Skip("set STORE_TEST_FIGURES=1 for figures of 100,000 objects of 1 KB")
	}
	const n = 100_000
	dir := t.TempDir()
	s, _ := running(t, Config{Dir: filepath.Join(dir, "a"), Retention: -1})
	value := make([]byte, 1024)
	rand.New(rand.NewSource(1)).Read(value)
	var wg sync.WaitGroup
	for w := range 64 {
		wg.Go(func() {
			for i := w; i < n; i += 64 {
				if _, err := s.Commit(context.Background(), Write{Key: fmt.Sprintf("/registry/pods/ns/p%06d", i), Value: value}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := s.Compact(t.Context(), s.CurrentRevision()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "full.bak")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, _, err := s.Backup(t.Context(), f, BackupOptions{History: true}); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	size, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	t.Logf("backup: %d objects, %d MB in %s: %.0f MB/s", n, size>>20, took.Round(time.Millisecond), float64(size)/1e6/took.Seconds())
	begin = time.Now()
	src := BackupSource{Name: file, Open: func() (io.ReadCloser, error) { return os.Open(file) }}
	if _, err := Restore(t.Context(), Config{Dir: filepath.Join(dir, "b"), MinFreeBytes: -1}, []BackupSource{src}, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Logf("restore: %s", time.Since(begin).Round(time.Millisecond))
	begin = time.Now()
	report, err := s.Verify(t.Context(), VerifyOptions{})
	if err != nil || report.Found != 0 {
		t.Fatal(report, err)
	}
	t.Logf("verify: %s", time.Since(begin).Round(time.Millisecond))
}
