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
	"runtime/debug"
	"time"

	"google.golang.org/protobuf/proto"

	"pintle.dev/pintle/plugins/proxies/iptables"
	"pintle.dev/pintle/plugins/proxies/nftables"
	"pintle.dev/pintle/sdk/proxy"
)

// proxies are those that are measured.
var proxies = map[string]func() proxy.Proxy{
	"nftables": func() proxy.Proxy { return nftables.New() },
	"iptables": func() proxy.Proxy { return iptables.New() },
}

func main() {
	debug.SetGCPercent(50) // as the plugin's process
	if len(os.Args) != 2 || proxies[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: proxy nftables|iptables")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "proxy "+os.Args[1]+":", err)
		os.Exit(1)
	}
}

// applied is what is answered to a diff.
type applied struct {
	Seconds float64
	Error   string
}

// run applies diffs from the standard input until it ends.
func run(name string) error {
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

// readDiff reads a length of four bytes, and a diff in protobuf.
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
