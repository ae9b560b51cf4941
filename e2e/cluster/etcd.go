package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// ErrNoEtcd says that etcd was not built.
var ErrNoEtcd = errors.New("bin/etcd is not built; run make etcd")

// Etcd is one running etcd server of a single member, on loopback of its network where
// nothing else is said.
type Etcd struct {
	// URL is where clients reach it.
	URL string

	network *Network
	tls     *TLS
	cmd     *exec.Cmd
	screen  *lines
	exited  chan struct{}
}

// TLS are the files of a server that wants certificates of its clients, and
// those of one client.
type TLS struct {
	CertFile, KeyFile, CAFile     string
	ClientCertFile, ClientKeyFile string
}

// StartEtcd starts etcd on a data directory and returns when it answers. sync
// says whether it syncs what it writes, as a server in use does. The error is
// ErrNoEtcd where it was not built. It ends with the test process.
func StartEtcd(ctx context.Context, network *Network, data string, sync bool) (*Etcd, error) {
	return startEtcd(ctx, network, loopback, data, sync, nil)
}

// StartEtcdTLS is StartEtcd, without syncing, for clients with certificates only.
func StartEtcdTLS(ctx context.Context, network *Network, data string, files TLS) (*Etcd, error) {
	return startEtcd(ctx, network, loopback, data, false, &files)
}

const loopback = "127.0.0.1"

// startEtcd tries other ports where a process of somebody else has taken one between the
// look for it and its use.
func startEtcd(ctx context.Context, network *Network, address, data string, sync bool, files *TLS) (*Etcd, error) {
	for tries := 1; ; tries++ {
		e, err := startEtcdOnce(ctx, network, address, data, sync, files)
		if err == nil || tries == 5 || !strings.Contains(err.Error(), "address already in use") {
			return e, err
		}
	}
}

func startEtcdOnce(ctx context.Context, network *Network, address, data string, sync bool, files *TLS) (*Etcd, error) {
	bin, err := Bin()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(bin, "etcd")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w (%s)", ErrNoEtcd, program)
	}
	e := &Etcd{network: network, tls: files, screen: newLines(), exited: make(chan struct{})}
	ports, err := freePorts(network, address, 2)
	if err != nil {
		return nil, err
	}
	e.URL = "http://" + address + ":" + strconv.Itoa(ports[0])
	if files != nil {
		e.URL = strings.Replace(e.URL, "http:", "https:", 1)
	}
	peer := "http://" + loopback + ":" + strconv.Itoa(ports[1])
	args := []string{"--data-dir", data, "--listen-client-urls", e.URL, "--advertise-client-urls", e.URL,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer,
		"--log-level", "error", "--watch-progress-notify-interval", "1s"}
	if files != nil {
		args = append(args, "--cert-file", files.CertFile, "--key-file", files.KeyFile, "--trusted-ca-file", files.CAFile, "--client-cert-auth")
	}
	if !sync {
		args = append(args, "--unsafe-no-fsync")
	}
	e.cmd = exec.Command(program, args...)
	e.cmd.Stdout, e.cmd.Stderr = io.Discard, e.screen
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := network.Start(e.cmd); err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	go func() {
		_ = e.cmd.Wait()
		close(e.exited)
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if err = e.ask(ctx); err == nil {
			return e, nil
		}
		select {
		case <-e.exited:
			return nil, fmt.Errorf("start etcd: it ended: %v", e.screen.all())
		case <-ctx.Done():
			e.Stop()
			return nil, fmt.Errorf("start etcd: %w; %v", err, e.screen.all())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Client is a client of the server, which the caller closes.
func (e *Etcd) Client() (*clientv3.Client, error) {
	cfg := clientv3.Config{Endpoints: []string{e.URL}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()}
	if e.tls != nil {
		info := transport.TLSInfo{CertFile: e.tls.ClientCertFile, KeyFile: e.tls.ClientKeyFile, TrustedCAFile: e.tls.CAFile}
		secure, err := info.ClientConfig()
		if err != nil {
			return nil, err
		}
		cfg.TLS = secure
	}
	if e.network != nil {
		cfg.DialOptions = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return e.network.Dial(ctx, "tcp", strings.TrimPrefix(strings.TrimPrefix(e.URL, "https://"), "http://"))
		})}
	}
	return clientv3.New(cfg)
}

func (e *Etcd) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := e.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Get(ctx, "health")
	return err
}

// Signal sends a signal to the server.
func (e *Etcd) Signal(sig os.Signal) error { return e.cmd.Process.Signal(sig) }

// Stop ends the server at once.
func (e *Etcd) Stop() {
	_ = e.cmd.Process.Kill()
	<-e.exited
}

func freePorts(network *Network, address string, n int) ([]int, error) {
	var ports []int
	err := network.Do(func() error {
		for range n {
			l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
			if err != nil {
				return err
			}
			defer l.Close()
			ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		}
		return nil
	})
	return ports, err
}
