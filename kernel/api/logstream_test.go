package api_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/websocket"
	"k8s.io/client-go/rest"
)

// A log over a WebSocket arrives whole though it is short: the agent's answer and
// its end come in one read.
func TestLogOverWebSocket(t *testing.T) {
	s := start(t, t.TempDir())
	c := overTLS(t, s)
	place(t, s, c, "web", agent(t, s).Port)
	cfg := must(kubeconfig(s))
	url := strings.Replace(cfg.Host, "https://", "wss://", 1) + "/api/v1/namespaces/default/pods/web/log?container=main"
	config := must(websocket.NewConfig(url, cfg.Host))
	config.Protocol = []string{"binary.k8s.io"}
	config.TlsConfig = must(rest.TLSConfigFor(cfg))
	for try := range 5 {
		conn, err := websocket.DialConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(conn)
		_ = conn.Close()
		if want := fmt.Sprintln("log of web by kube-apiserver-kubelet-client, tail "); err != nil || string(got) != want {
			t.Fatalf("try %d: %q, %v; want %q", try, got, err, want)
		}
	}
}
