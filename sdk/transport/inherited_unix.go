//go:build unix

package transport

import (
	"os"
	"strconv"
	"syscall"
)

// inherited is the socket at which the kernel asks, or nil. Its reads hold a thread
// of their own: the process waits for little else, and a thread that waits for one
// file is woken sooner than one that waits for all.
func inherited() *os.File {
	fd, err := strconv.Atoi(os.Getenv(QuestionsVariable))
	if err != nil || fd < 3 {
		return nil
	}
	os.Unsetenv(QuestionsVariable)
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "questions")
}
