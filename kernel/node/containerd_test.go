package node

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	certutil "k8s.io/client-go/util/cert"

	"pintle.dev/pintle/kernel/node/cri"
)

const (
	testBridge = "pintlenode0"
	toolImage  = "docker.io/pintle/nodetool:1"
)

func run(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// startContainerd runs the bundled containerd in a directory of its own, with an image of testdata/tool.
func startContainerd(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: real containers")
	}
	if testing.Short() {
		t.Skip("real containers are left out of short runs")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	tools := filepath.Join(root, "bin", "containerd")
	pause := filepath.Join(root, "bin", "images", "pause.tar")
	for _, f := range []string{filepath.Join(tools, "containerd"), filepath.Join(tools, "ctr"), pause} {
		if _, err := os.Stat(f); err != nil {
			t.Skipf("needs the bundled containerd (make build): %v", err)
		}
	}
	dir, err := os.MkdirTemp("", "nodetest")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	run(t, []string{"CGO_ENABLED=0"}, "go", "build", "-o", dir+"/tool", "./testdata/tool")
	run(t, nil, "go", "run", root+"/plugins/runtimes/containerd/image/mkimage", "-o", dir+"/tool.tar", "-t", toolImage, "-binary", dir+"/tool")
	conf := strings.ReplaceAll(fmt.Sprintf(`version = 3
root = 'DIR/root'
state = 'DIR/state'
disabled_plugins = ['io.containerd.nri.v1.nri']
[grpc]
  address = 'DIR/c.sock'
[ttrpc]
  address = 'DIR/c.sock.ttrpc'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = 'docker.io/pintle/pause:1'
[plugins.'io.containerd.cri.v1.runtime']
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = 'io.containerd.runc.v2'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    BinaryName = '%[1]s/runc'
    Root = 'DIR/runc'
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['%[1]s/cni']
  conf_dir = 'DIR/cni'
  use_internal_loopback = true
[plugins.'io.containerd.internal.v1.opt']
  path = 'DIR/opt'
`, tools), "DIR", dir)
	if err := os.WriteFile(dir+"/config.toml", []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/cni", 0o755); err != nil {
		t.Fatal(err)
	}
	network := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"nodetest","plugins":[{"type":"bridge","bridge":%q,"isDefaultGateway":true,
"ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.233.77.0/24"}]]}}]}`, testBridge, dir+"/ipam")
	if err := os.WriteFile(dir+"/cni/10-test.conflist", []byte(network), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(tools, "containerd"), "--config", dir+"/config.toml")
	cmd.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = log.Close()
		if t.Failed() {
			data, _ := os.ReadFile(dir + "/log")
			lines := strings.Split(string(data), "\n")
			t.Logf("containerd:\n%s", strings.Join(lines[max(0, len(lines)-25):], "\n"))
		}
		if l, err := netlink.LinkByName(testBridge); err == nil {
			_ = netlink.LinkDel(l)
		}
	})
	endpoint := "unix://" + dir + "/c.sock"
	client, err := cri.Dial(endpoint, "probe")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err = client.List(t.Context()); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("containerd did not come up: %v", err)
		}
	}
	for _, tar := range []string{pause, dir + "/tool.tar"} {
		run(t, nil, filepath.Join(tools, "ctr"), "-a", dir+"/c.sock", "-n", "k8s.io", "images", "import", tar)
	}
	return endpoint
}

// TestContainerd runs real containers: KLT-1, KLT-35, 001 §7, §9, §11, §19, §20 and what the server shows of them.
func TestContainerd(t *testing.T) {
	endpoint := startContainerd(t)
	client := fake.NewClientset(
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cm", ResourceVersion: "1"}, Data: map[string]string{"greeting": "hello"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sec", ResourceVersion: "1"}, Data: map[string][]byte{"key": []byte("s3cret")}},
	)
	client.PrependReactor("create", "tokenreviews", func(a ktesting.Action) (bool, runtime.Object, error) {
		review := a.(ktesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		if review.Spec.Token == "good" {
			review.Status.Authenticated, review.Status.User.Username, review.Status.User.Groups = true, "admin", []string{"system:masters"}
		}
		return true, review, nil
	})
	cert, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, client: client, root: t.TempDir()}
	a, err := New(Config{
		NodeName: nodeName, CRIEndpoint: endpoint, RootDir: w.root, Address: "127.0.0.1", NodeIPs: []string{"127.0.0.1"}, PodCIDR: "10.233.77.0/24",
		CgroupRoot: "/pintlenodetest", TearDownOnStop: true, ClusterDNS: []string{"10.0.0.10"},
	}, Deps{Client: client, Logger: slog.New(slog.NewTextHandler(testWriter{t}, nil)), ServingCert: &tls.Config{Certificates: []tls.Certificate{pair}}, ClientCAs: x509.NewCertPool()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := a.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	stop := sync.OnceFunc(func() { cancel(); wg.Wait() })
	defer stop()
	select {
	case <-a.Ready():
	case <-time.After(2 * time.Minute):
		t.Fatal("not ready")
	}
	mode := int32(0o400)
	begun := time.Now()
	pod := newPod("web", func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Image, c.Command = toolImage, []string{"/tool", "serve"}
		c.Stdin = true
		c.Env = []corev1.EnvVar{{Name: "A", Value: "x"}, {Name: "B", Value: "$(A)-$(POD)"}, {Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
		c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}}
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: *quantity("64Mi"), corev1.ResourceCPU: *quantity("500m")}
		c.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: *quantity("32Mi"), corev1.ResourceCPU: *quantity("100m")}
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: *intOrString(8080)}}, PeriodSeconds: 1, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "cm", MountPath: "/cm"}, {Name: "sec", MountPath: "/sec"}, {Name: "tmp", MountPath: "/scratch"}, {Name: "tmp", MountPath: "/sub", SubPath: "a/b"}, {Name: "down", MountPath: "/down"}}
		p.Labels = map[string]string{"app": "web"}
		p.Spec.Volumes = []corev1.Volume{
			{Name: "cm", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "cm"}}}},
			{Name: "sec", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "sec", DefaultMode: &mode}}},
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
			{Name: "down", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}}},
		}
	})
	w.runtime = nil
	eventually := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if ok() {
				return
			}
		}
		p := w.get("web")
		t.Fatalf("never happened: %s\nevents:\n%s\n%+v", what, strings.Join(w.events(), "\n"), p)
	}
	w.create(pod)
	eventually("running", func() bool { return w.phase("web") == corev1.PodRunning })
	t.Logf("create to running: %v", time.Since(begun))
	eventually("ready", func() bool { return ready(w.get("web")) })
	p := w.get("web")
	if p.Status.QOSClass != corev1.PodQOSBurstable || !strings.HasPrefix(p.Status.PodIP, "10.233.77.") {
		t.Fatalf("status %+v", p.Status)
	}

	// The kubelet server.
	config := &rest.Config{Host: "https://" + a.Addr().String(), BearerToken: "good", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	get := func(token, path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
		resp, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	if code, _ := get("", "/pods"); code != http.StatusUnauthorized {
		t.Errorf("anonymous: %d", code)
	}
	if code, _ := get("bad", "/pods"); code != http.StatusUnauthorized {
		t.Errorf("bad token: %d", code)
	}
	for path, want := range map[string]string{
		"/pods": `"name":"web"`, "/runningpods/": `"name":"web"`, "/healthz": "ok", "/metrics": "kubelet_running_pods 1", "/stats/summary": `"name":"main"`,
		"/containerLogs/default/web/main": "serving\n", "/containerLogs/default/web/main?timestamps=true": "Z to stderr\n",
	} {
		if code, body := get("good", path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	command := func(stdin string, args ...string) (string, error) {
		t.Helper()
		q := url.Values{"command": args, "output": {"1"}, "error": {"1"}}
		if stdin != "" {
			q.Set("input", "1")
		}
		u, err := url.Parse(config.Host + "/exec/default/web/main?" + q.Encode())
		if err != nil {
			t.Fatal(err)
		}
		var out, errOut bytes.Buffer
		o := remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut}
		if stdin != "" {
			o.Stdin = strings.NewReader(stdin)
		}
		e, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, u)
		if err != nil {
			t.Fatal(err)
		}
		err = e.StreamWithContext(t.Context(), o)
		return out.String() + errOut.String(), err
	}
	for want, args := range map[string][]string{
		"hello": {"/tool", "cat", "/cm/greeting"}, "s3cret": {"/tool", "cat", "/sec/key"}, `app="web"`: {"/tool", "cat", "/down/labels"},
		"nameserver 10.0.0.10": {"/tool", "cat", "/etc/resolv.conf"}, p.Status.PodIP + "\tweb": {"/tool", "cat", "/etc/hosts"}, "web": {"/tool", "cat", "/etc/hostname"},
		"": {"/tool", "write", "/sub/file", "in sub"},
	} {
		if out, err := command("", args...); err != nil || !strings.Contains(out, want) {
			t.Errorf("exec %v: %q %v", args, out, err)
		}
	}
	if out, err := command("", "/tool", "cat", "/scratch/a/b/file"); err != nil || out != "in sub" {
		t.Errorf("subPath: %q %v", out, err)
	}
	if out, err := command("through\n", "/tool", "stdin"); err != nil || out != "through\n" {
		t.Errorf("stdin: %q %v", out, err)
	}
	if _, err := command("", "/tool", "exit", "7"); err == nil || !strings.Contains(err.Error(), "7") {
		t.Errorf("exit code: %v", err)
	}
	if u, err := url.Parse(config.Host + "/exec/default/web/main?command=/tool&command=cat&command=/cm/greeting&output=1&error=1"); err == nil {
		var out bytes.Buffer
		e, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, u.String())
		if err != nil {
			t.Fatal(err)
		}
		if err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out}); err != nil || out.String() != "hello" {
			t.Errorf("exec over websocket: %q %v", out.String(), err)
		}
	}
	forward(t, config, "/portForward/default/web", func(addr string) {
		resp, err := http.Get("http://" + addr + "/env")
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		for _, want := range []string{"A=x", "B=x-$(POD)", "POD=web", "IP=" + p.Status.PodIP, "greeting=hello", "HOSTNAME=web"} {
			if !slices.Contains(strings.Split(string(body), "\n"), want) {
				t.Errorf("environment lacks %s:\n%s", want, body)
			}
		}
	})
	http.DefaultClient.CloseIdleConnections()

	// A changed ConfigMap arrives in the running container (001 §19).
	cm, _ := client.CoreV1().ConfigMaps("default").Get(t.Context(), "cm", metav1.GetOptions{})
	cm.Data["greeting"], cm.ResourceVersion = "changed", "2"
	if _, err := client.CoreV1().ConfigMaps("default").Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually("new content", func() bool {
		out, err := command("", "/tool", "cat", "/cm/greeting")
		return err == nil && out == "changed"
	})

	// How long a pod takes beside the runtime's own work; for the log only.
	var took []time.Duration
	for i := range 5 {
		name := fmt.Sprintf("quick%d", i)
		at := time.Now()
		w.create(newPod(name, func(p *corev1.Pod) {
			p.Spec.Containers[0].Image, p.Spec.Containers[0].Command = toolImage, []string{"/tool", "sleep", "1h"}
			p.Spec.TerminationGracePeriodSeconds = new(int64)
		}))
		eventually(name, func() bool { return w.phase(name) == corev1.PodRunning })
		took = append(took, time.Since(at).Round(time.Millisecond))
	}
	t.Logf("create to running, the next ones: %v", took)

	// Ends: exit code, message; an image that is not there.
	w.create(newPod("ends", func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		p.Spec.Containers[0].Image, p.Spec.Containers[0].Command = toolImage, []string{"/tool", "exit", "3", "last words"}
	}))
	eventually("failed", func() bool { return w.phase("ends") == corev1.PodFailed })
	if s := w.get("ends").Status.ContainerStatuses[0].State.Terminated; s == nil || s.ExitCode != 3 || s.Message != "last words" || s.Reason != "Error" {
		t.Errorf("terminated %+v", s)
	}
	begun = time.Now()
	w.deleteGracefully("web", 10)
	eventually("deleted", func() bool { return w.get("web") == nil })
	t.Logf("delete to gone: %v", time.Since(begun))
	stop()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), w.root) {
		t.Error("something is still mounted below " + w.root)
	}
	if left, _ := filepath.Glob("/sys/fs/cgroup/*/pintlenodetest"); len(left) > 0 {
		t.Errorf("cgroups left: %v", left)
	}
}

// forward opens a port-forward to 8080 and calls use with its local address.
func forward(t *testing.T, config *rest.Config, path string, use func(addr string)) {
	t.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(config.Host + path)
	if err != nil {
		t.Fatal(err)
	}
	stop, readyCh := make(chan struct{}), make(chan struct{})
	fw, err := portforward.NewOnAddresses(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u), []string{"127.0.0.1"}, []string{"0:8080"}, stop, readyCh, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- fw.ForwardPorts() }()
	select {
	case <-readyCh:
		ports, _ := fw.GetPorts()
		use(fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
	case err := <-done:
		t.Errorf("port-forward: %v", err)
		return
	case <-time.After(2 * time.Minute):
		t.Error("port-forward did not become ready")
	}
	close(stop)
	<-done
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	if testing.Verbose() {
		fmt.Fprint(os.Stderr, string(p))
	}
	return len(p), nil
}
