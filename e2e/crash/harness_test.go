//go:build linux && (amd64 || arm64)

package crash

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sys/unix"
)

const formCareless = "careless"

// writeCarelessly is the child of TestHarnessLosesWhatWasNotSynced: a file of two halves of which one was synced, by
// fsync or through a map, and one that never was.
func writeCarelessly(dir string) error {
	half := bytes.Repeat([]byte("s"), 8*pageSize)
	for _, name := range []string{"written", "mapped"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := f.Truncate(int64(2 * len(half))); err != nil {
			return err
		}
		if name == "written" {
			_, err1 := f.Write(half)
			err2 := f.Sync()
			_, err3 := f.Write(half)
			if err := errors.Join(err1, err2, err3); err != nil {
				return err
			}
			continue
		}
		m, err := unix.Mmap(int(f.Fd()), 0, 2*len(half), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return err
		}
		copy(m, half)
		if err := unix.Msync(m, unix.MS_SYNC); err != nil {
			return err
		}
		copy(m[len(half):], half)
	}
	if err := os.WriteFile(filepath.Join(dir, "never"), half, 0o600); err != nil {
		return err
	}
	// The third sync is where the kill comes.
	return unix.Fsync(socketFD)
}

func TestHarnessLosesWhatWasNotSynced(t *testing.T) {
	c := &campaign{t: t, form: formCareless, rng: rand.New(rand.NewPCG(1, 1)), model: newModel()}
	d, err := newDisk(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c.run(d, 3, 20*time.Second, 0)
	everything, little := t.TempDir(), t.TempDir()
	if err := errors.Join(d.copyAll(everything), d.image(little, cut{lose: 1, names: true}, c.rng)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"written", "mapped"} {
		whole, err1 := os.ReadFile(filepath.Join(everything, name))
		left, err2 := os.ReadFile(filepath.Join(little, name))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(whole, []byte("s")); n != 16*pageSize {
			t.Errorf("%s: a kill left %d of %d bytes", name, n, 16*pageSize)
		}
		if n := bytes.Count(left, []byte("s")); n != 8*pageSize {
			t.Errorf("%s: a power cut left %d bytes, %d were synced", name, n, 8*pageSize)
		}
	}
	if _, err := os.Stat(filepath.Join(little, "never")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file whose name was never synced survives the power cut: %v", err)
	}
}

func TestHarnessRefusesWhatIsNotLinearizable(t *testing.T) {
	for name, tt := range map[string]struct {
		lines []string
		want  porcupine.CheckResult
	}{
		"a stale read":                      {[]string{"I 1 0 create /r 0", "R 1 true 0", "I 2 1 get /r 0", "R 2 true 0"}, porcupine.Illegal},
		"two creates":                       {[]string{"I 1 0 create /r 0", "I 2 1 create /r 0", "R 1 true 0", "R 2 true 0"}, porcupine.Illegal},
		"an update of what was overwritten": {[]string{"I 1 0 create /r 0", "R 1 true 0", "I 2 0 update /r 1", "R 2 true 0", "I 3 1 update /r 1", "R 3 true 0"}, porcupine.Illegal},
		"a concurrent read of either":       {[]string{"I 1 0 create /r 0", "I 2 1 get /r 0", "R 2 true 0", "R 1 true 0"}, porcupine.Ok},
		"a write cut off, seen":             {[]string{"I 1 0 create /r 0", "I 2 1 get /r 0", "R 2 true 1"}, porcupine.Ok},
	} {
		t.Run(name, func(t *testing.T) {
			h := &history{}
			if err := h.read(tt.lines); err != nil {
				t.Fatal(err)
			}
			if got := porcupine.CheckOperationsTimeout(registerModel, h.done, time.Minute); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
