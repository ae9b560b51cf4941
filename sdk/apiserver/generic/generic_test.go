package generic

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/component-base/compatibility"

	"pintle.dev/pintle/sdk/apiserver"
	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// newServer is a server of k8s.io/apiserver that says who asks, and of its hooks.
func newServer(t *testing.T, begun, ended chan<- struct{}) func(c *apiserver.Context) (apiserver.Instance, error) {
	t.Helper()
	return func(c *apiserver.Context) (apiserver.Instance, error) {
		c.Client = fake.NewSimpleClientset()
		config := genericapiserver.NewRecommendedConfig(serializer.NewCodecFactory(runtime.NewScheme()))
		config.EffectiveVersion = compatibility.NewEffectiveVersionFromString("1.36", "1.36", "1.36")
		config.ExternalAddress = "localhost:443"
		Configure(c, config)
		if config.ClientConfig != c.RESTConfig {
			t.Error("its client is another")
		}
		server, err := config.Complete().New("notes", genericapiserver.NewEmptyDelegate())
		if err != nil {
			return apiserver.Instance{}, err
		}
		server.Handler.NonGoRestfulMux.HandleFunc("/apis/notes.example.com/v1/who", func(w http.ResponseWriter, req *http.Request) {
			u, _ := request.UserFrom(req.Context())
			fmt.Fprintf(w, "%s %v", u.GetName(), u.GetGroups())
		})
		server.AddPostStartHookOrDie("notes", func(genericapiserver.PostStartHookContext) error { close(begun); return nil })
		server.AddPreShutdownHookOrDie("notes", func() error { close(ended); return nil })
		return Instance(server), nil
	}
}

// A server that is built on k8s.io/apiserver runs as a plugin, with its handler chain and
// its hooks, believes the kernel alone, and ends in order.
func TestServer(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PLUGIN_UNIX_SOCKET_DIR", dir)
	begun, ended := make(chan struct{}), make(chan struct{})
	service, ok := apiserver.Service(apiserver.Server{Name: "notes", New: newServer(t, begun, ended)}).(contractv1.APIServersServer)
	if !ok {
		t.Fatal("the service does not serve the contract")
	}
	resp, err := service.Start(t.Context(), &contractv1.APIServerStart{Servers: []*contractv1.APIServerSpec{{Name: "notes", Socket: "/none", KernelUid: uint32(os.Geteuid())}}})
	if err != nil || resp.GetServers()[0].GetSocket() == "" {
		t.Fatal(resp, err)
	}
	<-begun
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, resp.GetServers()[0].GetSocket()))
	}}
	defer transport.CloseIdleConnections()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/apis/notes.example.com/v1/who", nil)
	req.Header.Set("X-Remote-User", "ann")
	req.Header.Set("X-Remote-Group", "writers")
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 64)
	n, _ := res.Body.Read(text)
	res.Body.Close()
	if res.StatusCode != http.StatusOK || string(text[:n]) != "ann [writers]" {
		t.Errorf("%s: %s", res.Status, text[:n])
	}
	transport.CloseIdleConnections()
	if _, err := service.Start(t.Context(), &contractv1.APIServerStart{}); err != nil {
		t.Error(err)
	}
	<-ended
}

// Who comes past the SDK's listener is nobody.
func TestNobodyIsBelieved(t *testing.T) {
	req := httptest.NewRequest(http.MethodGet, "/apis", nil)
	req.Header.Set("X-Remote-User", "system:admin")
	if _, ok, err := Authenticator().AuthenticateRequest(req); ok || err != nil {
		t.Errorf("believed: %v, %v", ok, err)
	}
}
