package confinement

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Two kernels have no user id in common, and what one had that was killed is free.
func TestUsersOfTheMachine(t *testing.T) {
	needRoot(t)
	// The id is the machine's: another run of this test waits.
	turn, err := os.OpenFile("/run/pintle-test-user.lock", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Close()
	if err := unix.Flock(int(turn.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	const id = 64123
	var one, other Users
	defer one.Release()
	defer other.Release()
	take := func(u *Users, want bool) {
		t.Helper()
		if got, err := u.Take(id); err != nil || got != want {
			t.Fatalf("taken: %v, %v, want %v", got, err, want)
		}
	}
	take(&one, true)
	take(&one, true)
	take(&other, false)
	// What it starts does not hold it on.
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
	one.Release()
	take(&other, true)
	take(&one, false)
	other.Release()
	// A link in its place is not followed.
	dir, err := registry()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "64123")
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, path); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(path)
	if got, err := one.Take(id); err == nil {
		t.Errorf("taken by a link: %v", got)
	}
	if _, err := os.Lstat(victim); err == nil {
		t.Error("the link was followed")
	}
}
