package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// client asks a server at its socket.
func client(t *testing.T, path string) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func ask(t *testing.T, c *http.Client, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/apis", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	res, err := c.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(body))
}

func echo(c *Context) (Instance, error) {
	if string(c.Config) == `"bad"` {
		return Instance{}, errors.New("a configuration that it does not take")
	}
	return Instance{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Panic") != "" {
			panic("as asked")
		}
		u, _ := UserOf(req.Context())
		fmt.Fprintf(w, "%s %v %v %s", u.Name, u.Groups, u.Extra, c.Config)
	})}, nil
}

func started(t *testing.T) (*service, func(config string, uid int) string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("PLUGIN_UNIX_SOCKET_DIR", dir)
	s := Service(Server{Name: "echo", New: echo}, Server{Name: "other", New: echo}).(*service)
	t.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s, func(config string, uid int) string {
		t.Helper()
		res, err := s.Start(t.Context(), &contractv1.APIServerStart{Servers: []*contractv1.APIServerSpec{{Name: "echo", Socket: "/none", Config: []byte(config), KernelUid: uint32(uid)}}})
		if err != nil || len(res.GetServers()) != 1 {
			t.Fatal(res, err)
		}
		if res.GetServers()[0].GetSocket() == "" {
			return res.GetServers()[0].GetMessage()
		}
		return filepath.Join(dir, res.GetServers()[0].GetSocket())
	}
}

func TestTheKernelsWordIsTaken(t *testing.T) {
	s, start := started(t)
	path := start(`{}`, os.Geteuid())
	c := client(t, path)
	header := http.Header{"X-Remote-User": {"ann"}, "X-Remote-Group": {"a", "b"}, "X-Remote-Extra-Example.com%2fkey": {"v"}}
	if code, body := ask(t, c, header); code != http.StatusOK || body != "ann [a b] map[example.com/key:[v]] {}" {
		t.Errorf("%d %s", code, body)
	}
	if code, body := ask(t, c, http.Header{"X-Remote-Group": {"system:masters"}}); code != http.StatusUnauthorized {
		t.Errorf("nobody's request: %d %s", code, body)
	}
	if code, body := ask(t, c, http.Header{"X-Remote-User": {"ann"}, "Panic": {"yes"}}); code != http.StatusInternalServerError || strings.Contains(body, "as asked") {
		t.Errorf("a panic: %d %s", code, body)
	}
	// The same again leaves it alone; another configuration makes another server.
	if again := start(`{}`, os.Geteuid()); again != path {
		t.Errorf("another socket %s", again)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info, err)
	}
	start(`{"a":1}`, os.Geteuid())
	if code, body := ask(t, client(t, path), header); code != http.StatusOK || !strings.HasSuffix(body, `{"a":1}`) {
		t.Errorf("after a configuration: %d %s", code, body)
	}
	if err := s.Configure("echo", []byte(`"bad"`)); err == nil {
		t.Error("a configuration that the server does not take is taken")
	}
	if why := start(`"bad"`, os.Geteuid()); !strings.Contains(why, "does not take") {
		t.Errorf("it starts with a bad configuration: %s", why)
	}
	if _, err := s.Start(t.Context(), &contractv1.APIServerStart{Servers: []*contractv1.APIServerSpec{{Name: "none"}}}); err == nil {
		t.Error("a server that is not there is started")
	}
	if _, err := s.Start(t.Context(), &contractv1.APIServerStart{}); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket of a server that ended: %v", err)
	}
}

// Who is not the kernel's user has no answer, whatever its headers say.
func TestAnotherUserIsNotTheKernel(t *testing.T) {
	_, start := started(t)
	path := start(`{}`, os.Geteuid()+1)
	if code, body := ask(t, client(t, path), http.Header{"X-Remote-User": {"system:admin"}, "X-Remote-Group": {"system:masters"}}); code != 0 {
		t.Errorf("%d %s", code, body)
	}
	if os.Geteuid() != 0 {
		t.Skip("that another user cannot open the socket is tested by root")
	}
	path = start(`{}`, 0)
	for dir := filepath.Dir(path); len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil { // not even where the folders are open
			t.Fatal(err)
		}
	}
	if n, err := asNobody(path); !errors.Is(err, unix.EACCES) {
		t.Errorf("another user connects: %d bytes, %v", n, err)
	}
	if err := os.Chmod(path, 0o666); err != nil { // and not where the socket is
		t.Fatal(err)
	}
	if n, err := asNobody(path); n > 0 || err != nil && !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
		t.Errorf("another user is answered: %d bytes, %v", n, err)
	}
}

// asNobody asks at a socket as another user, and returns how many bytes it was answered.
func asNobody(path string) (n int, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine, since it is not unlocked
		if _, _, fault := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); fault != 0 {
			err = fault
			return
		}
		var fd int
		if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return
		}
		defer unix.Close(fd)
		if err = unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
			return
		}
		if _, err = unix.Write(fd, []byte("GET /apis HTTP/1.1\r\nHost: x\r\nX-Remote-User: system:admin\r\n\r\n")); err != nil {
			return
		}
		n, err = unix.Read(fd, make([]byte, 1024))
	}()
	<-done
	return max(n, 0), err
}

// A server whose Run returns is built anew when the kernel asks the next time.
func TestAServerThatEndsIsBuiltAnew(t *testing.T) {
	t.Setenv("PLUGIN_UNIX_SOCKET_DIR", t.TempDir())
	built, end := 0, make(chan struct{})
	s := Service(Server{Name: "ends", New: func(*Context) (Instance, error) {
		built++
		return Instance{Handler: http.NotFoundHandler(), Run: func(ctx context.Context) error {
			select {
			case <-end:
				return errors.New("as asked")
			case <-ctx.Done():
				return nil
			}
		}}, nil
	}}).(*service)
	req := &contractv1.APIServerStart{Servers: []*contractv1.APIServerSpec{{Name: "ends"}}}
	for range 2 {
		if _, err := s.Start(t.Context(), req); err != nil || built != 1 {
			t.Fatal(built, err)
		}
	}
	end <- struct{}{}
	<-s.running["ends"].ended
	if _, err := s.Start(t.Context(), req); err != nil || built != 2 {
		t.Error(built, err)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
