package confinement

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"pintle.dev/pintle/kernel/plugin/confinement/executor"
)

// Wall is one of the means that hold a process.
type Wall string

// The walls, by the names that plugins.runWithout knows.
const (
	// Cgroup bounds memory, CPU and number of processes.
	Cgroup Wall = "cgroup"
	// Namespaces give a root file system, process ids, a network and a host name of its own.
	Namespaces Wall = executor.WallNamespaces
	// Ptrace holds the process until its file was compared with the digest.
	Ptrace Wall = "ptrace"
	// Seccomp filters system calls.
	Seccomp Wall = executor.WallSeccomp
)

// Walls are all of them.
func Walls() []Wall { return []Wall{Cgroup, Namespaces, Ptrace, Seccomp} }

// ErrMissing is what errors wrap that speak of a wall.
var ErrMissing = errors.New("cannot be confined on this machine")

// Missing is the error of a wall that the machine cannot put up.
func Missing(wall Wall, cause error) error { return &missing{wall, cause} }

type missing struct {
	wall  Wall
	cause error
}

func (m *missing) Error() string {
	return fmt.Sprintf("%s: no %s: %s; plugins.runWithout: [%s] lets plugins start without", ErrMissing, m.wall, m.cause, m.wall)
}

func (m *missing) Unwrap() []error { return []error{ErrMissing, m.cause} }

// unavailable reports whether an error is the operating system's word for what it
// does not have, or does not let us do.
func unavailable(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOSYS, syscall.ENOSPC, syscall.EINVAL, syscall.EUSERS, syscall.EACCES} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

// Waived are walls that may be missing, as one comparable value.
type Waived string

// Waive makes it of names; one that is no wall is an error.
func Waive(names []string) (Waived, error) {
	var out []string
	for _, name := range names {
		if !slices.Contains(Walls(), Wall(name)) {
			return "", fmt.Errorf("%q: want one of %s", name, Join(Walls()))
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return Waived(strings.Join(slices.Compact(out), ",")), nil
}

// Has reports whether a wall may be missing.
func (w Waived) Has(wall Wall) bool {
	return slices.Contains(strings.Split(string(w), ","), string(wall))
}

// Join lists walls in words.
func Join(walls []Wall) string {
	names := make([]string, len(walls))
	for i, w := range walls {
		names[i] = string(w)
	}
	return strings.Join(names, ", ")
}
