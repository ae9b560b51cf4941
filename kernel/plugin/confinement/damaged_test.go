package confinement

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// A program whose second half is missing is executed far enough to have no way back,
// and faults before its first instruction: that is an error, and the process ends.
func TestDamagedProgram(t *testing.T) {
	needRoot(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("/tmp", "confinement")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	program, sockets := filepath.Join(home, "program"), filepath.Join(home, "sockets")
	if err := errors.Join(os.Chmod(home, 0o711), os.Mkdir(sockets, 0o755), os.WriteFile(program, whole[:len(whole)/2], 0o755), os.Lchown(sockets, attacker, attacker)); err != nil {
		t.Fatal(err)
	}
	p := &Process{
		Path: program, Hostname: "damaged", Timeout: time.Minute, User: attacker, Sockets: sockets,
		Folders: &Folders{Staging: home, Visible: []Visible{{From: program, At: program}}},
		Stdout:  os.Stderr, Stderr: os.Stderr,
		Enter: func(int) error { return nil },
		Check: func(int) error { return errors.New("it is executed") }, // some systems map what is there
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := p.Start(); err == nil {
		t.Error("half a program was started")
	} else {
		t.Log(err)
	}
}
