package main

import (
	"bufio"
	"bytes"
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
	"sync"
	"syscall"
	"time"

	"pintle.dev/pintle/e2e/bench/rig"
	"pintle.dev/pintle/e2e/cluster"
)

const (
	// requesters have a connection each, and one request under way.
	requesters = 32
	// requestTurn is how long one proxy is asked before the other one has its turn.
	requestTurn = 2 * time.Second
	// requestTurns of each proxy make a round.
	requestTurns = 3

	backendPort  = "18080"
	nginxAddress = cluster.NodeIP + ":18081"
	caddyAddress = cluster.NodeIP + ":18082"
	ownAddress   = cluster.NodeIP + ":80"
)

// backend is a service whose endpoint is no pod, with an Ingress before it.
const backend = `
apiVersion: v1
kind: Service
metadata: {name: backend}
spec: {ports: [{port: 80, targetPort: PORT}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: backend-1, labels: {kubernetes.io/service-name: backend}}
addressType: IPv4
ports: [{name: "", port: PORT}]
endpoints: [{addresses: [ADDRESS]}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: backend}
spec:
  ingressClassName: pintle
  rules: [{host: bench.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: backend, port: {number: 80}}}}]}}]
`

// nginxConfig does what the Ingress says: one host, connections that stay, no log of requests.
const nginxConfig = `
daemon off;
worker_processes auto;
pid DIR/nginx.pid;
error_log DIR/error.log;
events { worker_connections 1024; }
http {
	access_log off;
	client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi; uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
	keepalive_requests 1000000;
	upstream backend { server ADDRESS; keepalive 128; keepalive_requests 1000000; }
	server {
		listen LISTEN;
		server_name bench.example.com;
		location / {
			proxy_pass http://backend;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_set_header Host $host;
			proxy_set_header X-Forwarded-For $remote_addr;
			proxy_set_header X-Forwarded-Proto $scheme;
		}
	}
}
`

// caddyConfig does the same by Caddy, which has as many threads as there are processors.
const caddyConfig = `
{
	admin off
	persist_config off
	auto_https off
	storage file_system DIR/caddy-data
}
http://bench.example.com:18082 {
	bind HOST
	reverse_proxy ADDRESS {
		transport http {
			keepalive_idle_conns_per_host 128
		}
	}
}
`

// requestFigures compare the bundle ingress with the better of nginx and Caddy, all before the
// same backend.
func (o options) requestFigures(ctx context.Context) (_ []rig.Figure, err error) {
	const name = "requests through the ingress"
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		return []rig.Figure{{Name: name, Unit: "1/s", Skipped: "nginx is not installed", Note: "apt-get install nginx-light"}}, nil
	}
	b, err := startBed(ctx, "bench-requests")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop()) }()
	n := b.network
	stop, err := serveBackend(n, cluster.NodeIP+":"+backendPort)
	if err != nil {
		return nil, err
	}
	defer stop()
	if err := b.applyIngress(ctx); err != nil {
		return nil, err
	}
	pid, err := processOf(b.cluster, "ingress")
	if err != nil {
		return nil, err
	}
	bin, err := cluster.Bin()
	if err != nil {
		return nil, err
	}
	sides, names := []side{{ownAddress, pid}}, []string{"", "nginx", "Caddy"}
	for _, o := range []struct{ program, address, config string }{{nginx, nginxAddress, nginxConfig}, {filepath.Join(bin, "caddy"), caddyAddress, caddyConfig}} {
		p, err := b.startOther(ctx, o.program, o.address, o.config)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, p.Stop(syscall.SIGTERM)) }()
		sides = append(sides, side{o.address, p.Pid()})
	}
	fmt.Printf("  %s requests\n", time.Now().Format(time.TimeOnly))
	took := make([][]turn, len(sides))
	for range o.rounds * requestTurns {
		for i, to := range sides {
			t, err := to.take(ctx, requesters, requestTurn, func(until time.Time) ([]float64, error) { return requestInTurn(ctx, n, to.address, until) })
			if err != nil {
				return nil, fmt.Errorf("requests to %s: %w", to.address, err)
			}
			took[i] = append(took[i], t)
		}
	}
	median := func(i int, of func(turn) float64) float64 { return rig.Median(column(took[i], of)) }
	better := 1
	if median(2, rateOf) > median(1, rateOf) {
		better = 2
	}
	f := rig.Beside(name, "1/s", names[better], 0.8, column(took[0], rateOf), column(took[better], rateOf))
	f.Rounds, f.Peer.Rounds = nil, nil
	note := fmt.Sprintf("p99 %.2f ms and %.0f µs of processor time a request", median(0, p99Of), median(0, costOf))
	for i := 1; i < len(sides); i++ {
		note += fmt.Sprintf("; %s %.0f a second, %.2f ms and %.0f µs", names[i], median(i, rateOf), median(i, p99Of), median(i, costOf))
	}
	return []rig.Figure{f.With("%s", note)}, nil
}

// startOther starts another proxy by its configuration, and returns when it forwards.
func (b *bed) startOther(ctx context.Context, program, address, config string) (*rig.Program, error) {
	name := filepath.Base(program)
	file := filepath.Join(b.dir, name+".conf")
	text := strings.NewReplacer("DIR", b.dir, "ADDRESS", cluster.NodeIP+":"+backendPort, "LISTEN", address, "HOST", cluster.NodeIP).Replace(config)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	args := []string{"-c", file, "-e", filepath.Join(b.dir, "error.log")}
	if name == "caddy" {
		args = []string{"run", "--config", file, "--adapter", "caddyfile"}
	}
	p, err := rig.StartIn(ctx, b.network, program, b.dir, func(ctx context.Context) error { return once(ctx, b.network, address) }, args...)
	if err != nil {
		return nil, fmt.Errorf("%w; make bench-network builds Caddy", err)
	}
	return p, nil
}

// applyIngress returns when the ingress forwards to the backend.
func (b *bed) applyIngress(ctx context.Context) error {
	bin, err := cluster.Bin()
	if err != nil {
		return err
	}
	apply := b.cluster.Command(ctx, filepath.Join(bin, "pintle"), "kubectl", "apply", "-f", "-")
	apply.Stdin = strings.NewReader(strings.NewReplacer("PORT", backendPort, "ADDRESS", cluster.NodeIP).Replace(backend))
	var said bytes.Buffer
	apply.Stdout, apply.Stderr = &said, &said
	if err := b.network.Start(apply); err != nil {
		return fmt.Errorf("apply the Ingress: %w", err)
	}
	if err := apply.Wait(); err != nil {
		return fmt.Errorf("apply the Ingress: %w: %s", err, said.Bytes())
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := once(ctx, b.network, ownAddress)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the ingress does not forward: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// answer is what the backend says.
const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 128\r\n\r\n"

// serveBackend answers each request at once, until it is stopped.
func serveBackend(n *cluster.Network, address string) (stop func(), err error) {
	l, err := n.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	whole := []byte(answer + strings.Repeat("x", 128))
	var mu sync.Mutex
	var open []net.Conn
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			group.Go(func() { // ends with the connection
				in := bufio.NewReader(c)
				for {
					line, err := in.ReadSlice('\n')
					if err != nil {
						return
					}
					if len(line) > 2 {
						continue // of the header
					}
					if _, err := c.Write(whole); err != nil {
						return
					}
				}
			})
		}
	})
	return func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		group.Wait()
	}, nil
}

// requestText is sent again and again.
const requestText = "GET /some/path?with=query HTTP/1.1\r\nHost: bench.example.com\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n"

// once is nil when a proxy forwards.
func once(ctx context.Context, n *cluster.Network, address string) error {
	_, err := requestInTurn(ctx, n, address, time.Time{})
	return err
}

// requestInTurn sends at least one request, and one after the other until a time; it returns
// how long each took, in ms.
func requestInTurn(ctx context.Context, n *cluster.Network, address string, until time.Time) (took []float64, err error) {
	conn, err := n.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(requestTurn + 10*time.Second)); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	for begin := time.Now(); ; {
		if _, err := io.WriteString(conn, requestText); err != nil {
			return took, err
		}
		if err := readAnswer(in); err != nil {
			return took, err
		}
		end := time.Now()
		took = append(took, end.Sub(begin).Seconds()*1000)
		if begin = end; !begin.Before(until) || ctx.Err() != nil {
			return took, ctx.Err()
		}
	}
}

// readAnswer takes an answer with the backend's body.
func readAnswer(in *bufio.Reader) error {
	status, err := in.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("the answer is %q", status)
	}
	size := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		if key, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(key, []byte("Content-Length")) {
			if size, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return err
			}
		}
	}
	if size != 128 {
		return fmt.Errorf("the body of the answer has %d bytes", size)
	}
	_, err = in.Discard(size)
	return err
}
