package containerd

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"pintle.dev/pintle/sdk/runtime"
)

func TestParseConfig(t *testing.T) {
	for text, want := range map[string]string{
		`{"bridge":"a-name-longer-than-15"}`: "want 1 to 15 characters",
		`{"logLevel":"loud"}`:                "not one of debug",
		`{"sockets":""}`:                     "unknown field",
		`{"registryHosts":"certs.d"}`:        "want an absolute path",
		`{"registryHosts":"/nowhere"}`:       "is no folder",
		`{} {}`:                              "more than one",
	} {
		if _, err := parseConfig([]byte(text), "/x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	c, err := parseConfig(nil, "/opt/bin/plugins/containerd")
	if err != nil || c.Tools != "/opt/bin/containerd" || c.Images != "/opt/bin/images" {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestNetworkConfig: no plugin of the network calls a tool.
func TestNetworkConfig(t *testing.T) {
	conf, err := networkConfig("b0", []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24"), netip.MustParsePrefix("fd00:1::/64")}, "/d", "/p", 1450)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"ipMasq": false`, `"type": "hostports"`, `"dataDir": "/p"`, `"portMappings": true`, `"type": "bandwidth"`, `"bandwidth": true`, `"cniVersion": "1.0.0"`, `"subnet": "10.1.0.0/24"`, `"subnet": "fd00:1::/64"`} {
		if !strings.Contains(string(conf), want) {
			t.Errorf("no %s in\n%s", want, conf)
		}
	}
	if former(conf) {
		t.Error("the network counts as that of an earlier version")
	}
}

// systemRuntime is a containerd of the system, with the cgroup driver of its
// configuration; without one, a containerd that does not say.
type systemRuntime struct {
	runtimev1.UnimplementedRuntimeServiceServer
	driver *runtimev1.CgroupDriver
}

func (systemRuntime) Version(context.Context, *runtimev1.VersionRequest) (*runtimev1.VersionResponse, error) {
	return &runtimev1.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "v1"}, nil
}

func (s systemRuntime) RuntimeConfig(ctx context.Context, req *runtimev1.RuntimeConfigRequest) (*runtimev1.RuntimeConfigResponse, error) {
	if s.driver == nil {
		return s.UnimplementedRuntimeServiceServer.RuntimeConfig(ctx, req)
	}
	return &runtimev1.RuntimeConfigResponse{Linux: &runtimev1.LinuxRuntimeConfiguration{CgroupDriver: *s.driver}}, nil
}

func TestSystemCgroupDriver(t *testing.T) {
	for name, c := range map[string]struct {
		driver *runtimev1.CgroupDriver
		want   string
	}{
		"systemd":  {runtimev1.CgroupDriver_SYSTEMD.Enum(), "SystemdCgroup = false"},
		"cgroupfs": {runtimev1.CgroupDriver_CGROUPFS.Enum(), ""},
		"unknown":  {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "pt") // sockets allow short paths only
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			socket := filepath.Join(dir, "c.sock")
			listener, err := net.Listen("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			server := grpc.NewServer()
			runtimev1.RegisterRuntimeServiceServer(server, systemRuntime{driver: c.driver})
			served := make(chan error, 1)
			go func() { served <- server.Serve(listener) }()
			t.Cleanup(func() {
				server.Stop()
				if err := <-served; err != nil {
					t.Error(err)
				}
			})
			_, err = New().Start(t.Context(), runtime.Options{Config: []byte(`{"socket":"` + socket + `"}`), Logger: slog.New(slog.DiscardHandler)})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestLifeCycle starts the bundled containerd, runs a sandbox, finds it again
// after the plugin was replaced, brings it back after the daemon was killed,
// and leaves nothing behind.
func TestLifeCycle(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to run containers")
	}
	artifacts, err := filepath.Abs("../../../bin/plugins/containerd")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(artifacts, "../../containerd/containerd")); err != nil {
		t.Skip("the bundled containerd is not built: run make build")
	}
	if _, err := net.InterfaceByName("pintle-test0"); err == nil {
		t.Skip("another run of this test is under way: interface pintle-test0 exists")
	}
	// Sockets allow short paths only.
	dir, err := os.MkdirTemp("", "pt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	options := runtime.Options{
		Config:            []byte(`{"bridge":"pintle-test0"}`),
		DataDirectory:     filepath.Join(dir, "data"),
		StateDirectory:    filepath.Join(dir, "state"),
		ArtifactDirectory: artifacts,
		PodCIDR:           "10.251.7.0/24",
		Logger:            slog.New(slog.DiscardHandler),
	}
	first := New()
	endpoint, err := first.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	defer func() {
		if !stopped {
			_ = first.Stop(context.WithoutCancel(t.Context()), false)
		}
	}()
	conn, err := grpc.NewClient("unix://"+endpoint.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cri := runtimev1.NewRuntimeServiceClient(conn)
	sandbox, err := cri.RunPodSandbox(t.Context(), &runtimev1.RunPodSandboxRequest{Config: &runtimev1.PodSandboxConfig{
		Metadata: &runtimev1.PodSandboxMetadata{Name: "p", Namespace: "default", Uid: "u"},
		Linux:    &runtimev1.LinuxPodSandboxConfig{},
	}})
	if err != nil {
		t.Fatal(err)
	}
	status, err := cri.PodSandboxStatus(t.Context(), &runtimev1.PodSandboxStatusRequest{PodSandboxId: sandbox.PodSandboxId})
	if err != nil {
		t.Fatal(err)
	}
	if ip := status.Status.Network.GetIp(); !strings.HasPrefix(ip, "10.251.7.") {
		t.Errorf("sandbox has address %q", ip)
	}

	second := New()
	found, err := second.Start(t.Context(), options)
	if err != nil || found.Message != "found the running containerd" {
		t.Fatalf("%+v, %v", found, err)
	}
	before := running(second.layout)
	if err := terminate(t.Context(), second.layout); err != nil {
		t.Fatal(err)
	}
	generation, err := second.Status(t.Context())
	if err != nil || generation != 2 || running(second.layout) == before {
		t.Errorf("after the daemon ended: generation %d, %v", generation, err)
	}
	// The daemon answers before it has looked up its sandboxes again.
	state := runtimev1.PodSandboxState_SANDBOX_NOTREADY
	for deadline := time.Now().Add(2 * time.Minute); state != runtimev1.PodSandboxState_SANDBOX_READY && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if status, err = cri.PodSandboxStatus(t.Context(), &runtimev1.PodSandboxStatusRequest{PodSandboxId: sandbox.PodSandboxId}); err == nil {
			state = status.Status.State
		}
	}
	if state != runtimev1.PodSandboxState_SANDBOX_READY {
		t.Errorf("sandbox after the daemon ended: %v, %v", state, err)
	}
	if err := second.Stop(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	stopped = true
	if _, err := net.InterfaceByName("pintle-test0"); err == nil {
		t.Error("the bridge was left behind")
	}
	if _, err := os.Stat(options.StateDirectory + "/state"); err == nil {
		t.Error("state was left behind")
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("mounts were left behind: %v", err)
	}
	if pid := running(second.layout); pid != 0 {
		t.Errorf("containerd still runs as %d", pid)
	}
}
