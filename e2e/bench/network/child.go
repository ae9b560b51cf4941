package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/e2e/cluster"
	"pintle.dev/pintle/sdk/proxy"
)

// applied is what a child answers to a diff.
type applied struct {
	Seconds float64
	Error   string
}

// child is a proxy in a process of its own.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

// startChild starts the program of proxy/main.go.
func startChild(ctx context.Context, program, name string) (*child, error) {
	cmd := exec.CommandContext(ctx, program, name)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// On the thread of that starter: others end here, and take with them what they started.
	if err := cluster.StartProcess(cmd); err != nil {
		return nil, fmt.Errorf("start proxy %s in a network namespace of its own: %w", name, err)
	}
	return &child{cmd: cmd, in: in, out: json.NewDecoder(out)}, nil
}

// apply sends a diff and returns how long the proxy took.
func (c *child) apply(diff *proxy.Diff) (float64, error) {
	raw, err := proto.Marshal(diff)
	if err != nil {
		return 0, err
	}
	if _, err := c.in.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(raw))), raw...)); err != nil {
		return 0, err
	}
	var a applied
	if err := c.out.Decode(&a); err != nil {
		return 0, err
	}
	if a.Error != "" {
		return 0, errors.New(a.Error)
	}
	return a.Seconds, nil
}

func (c *child) stop() error {
	return errors.Join(c.in.Close(), c.cmd.Wait())
}
