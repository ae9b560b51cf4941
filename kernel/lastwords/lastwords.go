package lastwords

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
)

// ErrNotHere says that faults end the process as they do in any Go program.
var ErrNotHere = errors.New("the runtime's own words are not replaced here")

// maxTrace bounds what is kept of a trace, in bytes. The goroutine that failed comes first in it.
const maxTrace = 1 << 20

// Arm has the process become the program args[0], with the arguments args, when it ends by a fault. release makes it an
// ordinary one again. ErrNotHere: the system or the environment does not allow it.
func Arm(args []string) (release func(), err error) {
	if os.Getenv("GOTRACEBACK") != "" || os.Getenv("GODEBUG") != "" {
		return nil, ErrNotHere
	}
	return arm(args)
}

// Read returns the trace, in the program that the process has become.
func Read() (string, error) {
	f := os.NewFile(traceFD, "trace")
	if f == nil {
		return "", errors.New("no trace: this program is run by a process that ends by a fault")
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxTrace))
	return string(b), err
}

// Keep writes the trace to file. On a full disk it is as much of it as the file has room for, which whoever made it may
// have reserved: what is there is written over, block by block, and not dropped first.
func Keep(file, trace string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	const block = 4 << 10
	at := 0
	for at < len(trace) && err == nil {
		var n int
		n, err = f.WriteAt([]byte(trace[at:min(at+block, len(trace))]), int64(at))
		at += n
	}
	if at > 0 {
		if errors.Is(err, syscall.ENOSPC) {
			err = nil
		}
		err = errors.Join(err, f.Truncate(int64(at)))
	}
	return errors.Join(err, f.Close())
}

// Asked says whether somebody asked the process for its trace, by SIGQUIT.
func Asked(trace string) bool { return strings.HasPrefix(trace, "SIGQUIT: ") }
