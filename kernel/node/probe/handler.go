package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"pintle.dev/pintle/kernel/node/container"
)

// Outcome is the answer of one attempt. Unknown means that the probe itself failed: nothing is concluded from it.
type Outcome int

// The outcomes.
const (
	Unknown Outcome = iota
	Success
	Warning // success with something to tell
	Failure
)

func (o Outcome) String() string { return [...]string{"Unknown", "Success", "Warning", "Failure"}[o] }

const (
	maxBody   = 10 << 10
	userAgent = "kube-probe/1.36"
)

// Exec runs a command in a container and answers exit code and combined output; err means it could not be run.
// A command that outlives timeout answers context.DeadlineExceeded.
type Exec func(ctx context.Context, containerID string, command []string, timeout time.Duration) (exit int, output []byte, err error)

// attempt runs a probe's handler once against the container.
func attempt(ctx context.Context, exec Exec, p *corev1.Probe, c *corev1.Container, containerID, podIP string) (Outcome, string, error) {
	timeout := time.Duration(p.TimeoutSeconds) * time.Second
	if timeout <= 0 {
		timeout = time.Second
	}
	switch {
	case p.Exec != nil:
		command := make([]string, len(p.Exec.Command))
		for i, arg := range p.Exec.Command {
			command[i] = container.Expand(arg, func(name string) (string, bool) {
				for _, e := range c.Env {
					if e.Name == name && e.ValueFrom == nil {
						return e.Value, true
					}
				}
				return "", false
			})
		}
		exit, out, err := exec(ctx, containerID, command, timeout)
		if len(out) > maxBody {
			out = out[:maxBody]
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return Failure, fmt.Sprintf("command timed out: %q timed out after %s", strings.Join(command, " "), timeout), nil
		}
		if err != nil {
			return Unknown, "", err
		}
		if exit != 0 {
			return Failure, string(out), nil
		}
		return Success, string(out), nil
	case p.HTTPGet != nil:
		req, err := HTTPRequest(ctx, p.HTTPGet, c, podIP)
		if err != nil {
			return Unknown, "", err
		}
		return attemptHTTP(req, timeout)
	case p.TCPSocket != nil:
		port, err := container.Port(c, p.TCPSocket.Port)
		if err != nil {
			return Unknown, "", err
		}
		host := p.TCPSocket.Host
		if host == "" {
			host = podIP
		}
		d := net.Dialer{Timeout: timeout}
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return Failure, err.Error(), nil
		}
		_ = conn.Close()
		return Success, "", nil
	case p.GRPC != nil:
		service := ""
		if p.GRPC.Service != nil {
			service = *p.GRPC.Service
		}
		return attemptGRPC(ctx, net.JoinHostPort(podIP, strconv.Itoa(int(p.GRPC.Port))), service, timeout)
	}
	return Unknown, "", fmt.Errorf("missing probe handler for container %s", c.Name)
}

// HTTPRequest makes the request of an httpGet handler, of a probe or of a hook.
func HTTPRequest(ctx context.Context, h *corev1.HTTPGetAction, c *corev1.Container, podIP string) (*http.Request, error) {
	port, err := container.Port(c, h.Port)
	if err != nil {
		return nil, err
	}
	host := h.Host
	if host == "" {
		host = podIP
	}
	scheme := strings.ToLower(string(h.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	u, err := url.Parse(h.Path)
	if err != nil {
		u = &url.URL{Path: h.Path} // a path that is no URL is taken as written
	}
	u.Scheme, u.Host = scheme, net.JoinHostPort(host, strconv.Itoa(port))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, header := range h.HTTPHeaders {
		req.Header.Add(header.Name, header.Value)
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if _, has := req.Header["User-Agent"]; !has {
		req.Header.Set("User-Agent", userAgent)
	} else if req.Header.Get("User-Agent") == "" {
		req.Header["User-Agent"] = nil
	}
	if _, has := req.Header["Accept"]; !has {
		req.Header.Set("Accept", "*/*")
	} else if req.Header.Get("Accept") == "" {
		req.Header.Del("Accept")
	}
	return req, nil
}

// HTTPClient talks to containers: no certificate check (their names are unknown), no proxy, no connection kept.
// followElsewhere says whether redirects to other hosts are followed. ctx ends
// what is being dialled: a transport by itself goes on when its request ended.
func HTTPClient(ctx context.Context, timeout time.Duration, followElsewhere bool) *http.Client {
	dialer := &net.Dialer{Timeout: timeout}
	return &http.Client{
		Timeout: timeout,
		Transport: &http.Transport{
			DialContext: func(_ context.Context, network, addr string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, addr)
			},
			TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as the kubelet: the container is addressed by IP
			DisableKeepAlives:  true,
			DisableCompression: true,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if !followElsewhere && req.URL.Hostname() != via[0].URL.Hostname() {
				return http.ErrUseLastResponse
			}
			if len(via) >= 10 {
				return errors.New("stopped after 10 redirects")
			}
			return nil
		},
	}
}

func attemptHTTP(req *http.Request, timeout time.Duration) (Outcome, string, error) {
	res, err := HTTPClient(req.Context(), timeout, false).Do(req)
	if err != nil {
		return Failure, err.Error(), nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return Failure, "", err
	}
	if res.StatusCode >= 200 && res.StatusCode < 400 {
		if res.StatusCode >= 300 {
			return Warning, fmt.Sprintf("Probe terminated redirects, Response body: %s", body), nil
		}
		return Success, string(body), nil
	}
	return Failure, fmt.Sprintf("HTTP probe failed with statuscode: %d", res.StatusCode), nil
}

// dialProbe connects to a container itself, never by a proxy of the environment.
func dialProbe(ctx context.Context, addr string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}

func attemptGRPC(ctx context.Context, addr, service string, timeout time.Duration) (Outcome, string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithUserAgent(userAgent), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithContextDialer(dialProbe))
	if err != nil {
		return Failure, fmt.Sprintf("error: failed to connect service at %q: %+v", addr, err), nil
	}
	defer conn.Close()
	// A connection that is refused or lost is tried again until the time is over: on a busy machine the first attempt
	// says little.
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return Failure, fmt.Sprintf("timeout: failed to connect service %q within %v: %+v", addr, timeout, ctx.Err()), nil
		}
		if conn.GetState() == connectivity.Idle {
			conn.Connect()
		}
	}
	resp, err := healthpb.NewHealthClient(conn).Check(metadata.NewOutgoingContext(ctx, metadata.MD{}), &healthpb.HealthCheckRequest{Service: service}, grpc.WaitForReady(true))
	if err != nil {
		switch s, _ := status.FromError(err); s.Code() {
		case codes.Unimplemented:
			return Failure, fmt.Sprintf("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s", s.Message()), nil
		case codes.DeadlineExceeded:
			return Failure, fmt.Sprintf("timeout: health rpc did not complete within %v", timeout), nil
		}
		return Failure, fmt.Sprintf("error: health rpc probe failed: %+v", err), nil
	}
	if resp.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		return Failure, fmt.Sprintf("service unhealthy (responded with %q)", resp.GetStatus().String()), nil
	}
	return Success, "service healthy", nil
}
