package rig

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"pintle.dev/pintle/e2e/cluster"
)

const (
	programStart = 60 * time.Second
	programStop  = 20 * time.Second
)

// Program is a server that was started and is asked until it answers.
type Program struct {
	name   string
	cmd    *exec.Cmd
	log    string
	exited chan struct{}
}

// StartProgram starts a built program on the machine's own network.
func StartProgram(ctx context.Context, name, dir string, ready func(context.Context) error, args ...string) (*Program, error) {
	bin, err := cluster.Bin()
	if err != nil {
		return nil, err
	}
	p, err := StartIn(ctx, nil, filepath.Join(bin, name), dir, ready, args...)
	if errors.Is(err, os.ErrNotExist) {
		err = fmt.Errorf("%w; is it built? The targets bench-store, bench-peer and bench-controllers build it", err)
	}
	return p, err
}

// StartIn starts a program within a network, nil for the machine's own, and returns when
// ready is nil. What it prints is in a file beside its data.
func StartIn(ctx context.Context, n *cluster.Network, path, dir string, ready func(context.Context) error, args ...string) (*Program, error) {
	name := filepath.Base(path)
	p := &Program{name: name, log: filepath.Join(dir, name+".log"), exited: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := n.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.exited)
	}()
	ctx, cancel := context.WithTimeout(ctx, programStart)
	defer cancel()
	for {
		ask, cancelAsk := context.WithTimeout(ctx, 2*time.Second)
		err := ready(ask)
		cancelAsk()
		select {
		case <-p.exited: // another program may have answered on its port
			return nil, fmt.Errorf("start %s: it ended\n%s", name, p.tail())
		default:
		}
		if err == nil {
			return p, nil
		}
		select {
		case <-ctx.Done():
			_ = p.Stop(syscall.SIGKILL)
			return nil, fmt.Errorf("start %s: %w: %w\n%s", name, ctx.Err(), err, p.tail())
		case <-time.After(10 * time.Millisecond):
		case <-p.exited:
		}
	}
}

func (p *Program) tail() string {
	raw, _ := os.ReadFile(p.log)
	return string(raw[max(0, len(raw)-2000):])
}

// Stop ends the program, by force where a signal is not enough. Stopping it
// again does nothing.
func (p *Program) Stop(sig os.Signal) error {
	select {
	case <-p.exited:
		return nil
	default:
	}
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.exited:
		return nil
	case <-time.After(programStop):
		_ = p.cmd.Process.Kill()
		<-p.exited
		return fmt.Errorf("%s did not stop within %s", p.name, programStop)
	}
}

// FreePorts are ports of loopback that the system gave.
func FreePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return ports, nil
}

// StartEtcd starts one member of etcd with its data in dir, as a server in use:
// every write is synced. Clients reach it without TLS.
func StartEtcd(ctx context.Context, dir string) (p *Program, url string, err error) {
	ports, err := FreePorts(2)
	if err != nil {
		return nil, "", err
	}
	url, peer := "http://127.0.0.1:"+ports[0], "http://127.0.0.1:"+ports[1]
	p, err = StartProgram(ctx, "etcd", dir, func(ctx context.Context) error { return OKAt(ctx, http.DefaultClient, url+"/health") },
		"--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--quota-backend-bytes", strconv.Itoa(8<<30), "--log-level", "error")
	return p, url, err
}

// OKAt is nil when a URL answers 200.
func OKAt(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return nil
}

// WriteKey makes the key that tokens of service accounts are signed with.
func WriteKey(file string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// Ended is an error with the last of what it printed, once it has ended.
func (p *Program) Ended() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s ended\n%s", p.name, p.tail())
	default:
		return nil
	}
}

// Pid is its process id.
func (p *Program) Pid() int { return p.cmd.Process.Pid }
