package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/plugins/proxies/iptables"
	"pintle.dev/pintle/plugins/proxies/nftables"
	"pintle.dev/pintle/sdk/proxy"
)

// role is the environment variable that names the proxy of a child.
const role = "PINTLE_BENCH_PROXY"

// applied is what a child answers to a diff.
type applied struct {
	Seconds float64
	Error   string
}

// proxies are those that are measured.
var proxies = map[string]func() proxy.Proxy{
	"nftables": func() proxy.Proxy { return nftables.New() },
	"iptables": func() proxy.Proxy { return iptables.New() },
}

// runChild applies diffs from the standard input until it ends.
func runChild(name string) error {
	ctx := context.Background()
	p := proxies[name]()
	state, err := os.MkdirTemp("", "pintle-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(state)
	if err := p.Start(ctx, proxy.Options{
		NodeName: "n", NodeIPs: []string{"192.0.2.10"}, ClusterCIDRs: []string{"10.128.0.0/9"}, ServiceCIDRs: []string{"10.0.0.0/10"},
		StateDirectory: state, Config: []byte(`{"healthzBindAddress":""}`), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}); err != nil {
		return err
	}
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		diff, err := readDiff(in)
		if errors.Is(err, io.EOF) {
			return p.Stop(ctx, true)
		}
		if err != nil {
			return err
		}
		begin := time.Now()
		var a applied
		if err := p.Apply(ctx, diff); err != nil {
			a.Error = err.Error()
		}
		a.Seconds = time.Since(begin).Seconds()
		if err := out.Encode(a); err != nil {
			return err
		}
	}
}

func readDiff(in io.Reader) (*proxy.Diff, error) {
	var size uint32
	if err := binary.Read(in, binary.BigEndian, &size); err != nil {
		return nil, err
	}
	raw := make([]byte, size)
	if _, err := io.ReadFull(in, raw); err != nil {
		return nil, err
	}
	var diff proxy.Diff
	return &diff, proto.Unmarshal(raw, &diff)
}

// child is a proxy in a process of its own.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *json.Decoder
}

func startChild(ctx context.Context, name string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), role+"="+name)
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
	if err := cmd.Start(); err != nil {
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
