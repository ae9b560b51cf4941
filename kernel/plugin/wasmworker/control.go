package wasmworker

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"pintle.dev/pintle/kernel/plugin/engine"
)

// load is the first message to a worker. With it come the metered module, and its
// machine code if there is any.
type load struct {
	Size    int64    // of the module
	Memory  int64    // ceiling of an instance
	Folders []string `json:",omitempty"` // that the module may read
	Code    string   `json:",omitempty"` // wazero's name of the machine code; empty: compile it
}

// loaded is the answer to it.
type loaded struct {
	Error   string `json:",omitempty"`
	Imports []engine.Import
}

// begin asks for an instance. With it come its socket and its memory.
type begin struct{ Size int64 }

// started is an instance's first frame.
type started struct {
	Error     string `json:",omitempty"`
	Deadline  bool   `json:",omitempty"`
	Memory    bool   // it exports its memory
	Used      uint64
	Functions []function
}

type function struct{ Name, Signature string }

const (
	maxMessage = 1 << 20
	maxFiles   = 2
)

// send sends a message with files.
func send(conn *net.UnixConn, message any, files ...*os.File) error {
	body, err := json.Marshal(message)
	if err != nil {
		return err
	}
	out := append(binary.LittleEndian.AppendUint32(nil, uint32(len(body))), body...)
	var rights []byte
	if len(files) > 0 {
		var fds []int
		for _, f := range files {
			fds = append(fds, int(f.Fd()))
		}
		rights = unix.UnixRights(fds...)
	}
	n, _, err := conn.WriteMsgUnix(out, rights, nil)
	if err == nil && n < len(out) {
		_, err = conn.Write(out[n:])
	}
	return err
}

// receive receives a message with its files.
func receive(conn *net.UnixConn, into any) (files []*os.File, err error) {
	defer func() {
		if err != nil {
			for _, f := range files {
				f.Close()
			}
			files = nil
		}
	}()
	head, rights := make([]byte, 4), make([]byte, unix.CmsgSpace(4*maxFiles))
	n, m, _, _, err := conn.ReadMsgUnix(head, rights)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, io.EOF
	}
	controls, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil {
		return nil, err
	}
	for i := range controls {
		fds, err := unix.ParseUnixRights(&controls[i])
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	if _, err := io.ReadFull(conn, head[n:]); err != nil {
		return files, err
	}
	return files, readBody(conn, head, into)
}

// answer reads a message of the worker's, with which no files come.
func answer(conn *net.UnixConn, into any) error {
	head := make([]byte, 4)
	if _, err := io.ReadFull(conn, head); err != nil {
		return err
	}
	return readBody(conn, head, into)
}

func readBody(conn io.Reader, head []byte, into any) error {
	size := binary.LittleEndian.Uint32(head)
	if size > maxMessage {
		return fmt.Errorf("message of %d bytes, at most %d", size, maxMessage)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(conn, body); err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}
