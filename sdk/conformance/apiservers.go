package conformance

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"pintle.dev/pintle/sdk/artifact"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// apiServer: an API server listens when it was started, in the folder that is its own,
// to HTTP; nobody else than the kernel has an answer, nor a request without a user; and
// it ends when nobody wants it.
func apiServer(ctx context.Context, a *artifact.Process, name, none string) error {
	client := contractv1.NewAPIServersClient(a.Conn())
	if _, err := client.Start(ctx, &contractv1.APIServerStart{Servers: []*contractv1.APIServerSpec{{Name: none, Socket: "/nonexistent"}}}); err == nil || broken(err) {
		return fmt.Errorf("an API server %s, which is not there, is started: %v", none, err)
	}
	start := func(uid int) (string, error) {
		resp, err := client.Start(ctx, &contractv1.APIServerStart{Servers: []*contractv1.APIServerSpec{{
			Name: name, Socket: "/nonexistent", KernelUid: uint32(uid), GroupVersions: []*contractv1.APIGroupVersion{{Group: "conformance.example.com", Version: "v1"}},
		}}})
		if err != nil {
			return "", fmt.Errorf("%s: start: %w", name, err)
		}
		if n := len(resp.GetServers()); n != 1 || resp.GetServers()[0].GetName() != name {
			return "", fmt.Errorf("%s: start answers about %d servers, want the one that was named", name, n)
		}
		socket := resp.GetServers()[0].GetSocket()
		switch {
		case socket == "" && resp.GetServers()[0].GetMessage() == "":
			return "", fmt.Errorf("%s does not listen and does not say why", name)
		case socket == "":
			return "", errSkip{name + " does not listen without a kernel: " + resp.GetServers()[0].GetMessage()}
		case socket != filepath.Base(socket):
			return "", fmt.Errorf("%s listens at %q; want a name in the folder of PLUGIN_UNIX_SOCKET_DIR", name, socket)
		}
		return socket, nil
	}
	socket, err := start(os.Geteuid())
	if err != nil {
		return err
	}
	if again, err := start(os.Geteuid()); err != nil || again != socket {
		return fmt.Errorf("%s: started again as it runs, it listens at %q, was %q: %v", name, again, socket, err)
	}
	// X-Remote-User is missing: whose request it is nobody knows.
	code, err := request(ctx, a, socket)
	if err != nil {
		return fmt.Errorf("%s does not speak HTTP/1.1 at its socket: %w", name, err)
	}
	if code != http.StatusUnauthorized {
		return fmt.Errorf("%s answers %d to a request of nobody (X-Remote-User is missing); want 401", name, code)
	}
	if _, err := start(os.Geteuid() + 1); err != nil {
		return err
	}
	if code, err := request(ctx, a, socket); err == nil {
		return fmt.Errorf("%s answers %d to another user than kernel_uid; compare it with SO_PEERCRED of the connection", name, code)
	}
	if _, err := client.Start(ctx, &contractv1.APIServerStart{}); err != nil {
		return fmt.Errorf("%s: a start of no server: %w", name, err)
	}
	if code, err := request(ctx, a, socket); err == nil {
		return fmt.Errorf("%s answers %d when it was ended", name, code)
	}
	return nil
}

// request asks at a socket of the process for a path that every server may have.
func request(ctx context.Context, a *artifact.Process, socket string) (int, error) {
	path := filepath.Join(a.Sockets(), socket) // or where go-plugin made a folder in it
	if _, err := os.Lstat(path); err != nil {
		found, err := filepath.Glob(filepath.Join(a.Sockets(), "*", socket))
		if err != nil || len(found) != 1 {
			return 0, fmt.Errorf("there is no socket %s in its folder", socket)
		}
		path = found[0]
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return 0, err
		}
	}
	if _, err := fmt.Fprint(conn, "GET /apis/conformance.example.com/v1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
