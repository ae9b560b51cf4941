package kernel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/seal"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// doorkeeper is a folder with a bundle whose process starts when a file is there:
// it reviews pods.
type doorkeeper struct{ folder, open string }

func newDoorkeeper(t *testing.T, data string) doorkeeper {
	t.Helper()
	d := doorkeeper{folder: t.TempDir(), open: filepath.Join(t.TempDir(), "open")}
	if os.Geteuid() == 0 {
		// A folder of the machine that it sees, which goes with the kernel.
		d.open = filepath.Join(directories{shared: filepath.Join("/run", "pintle-plugins-"+shortHash(data))}.public(), "open")
	}
	bundle := filepath.Join(d.folder, "greeter")
	if err := os.MkdirAll(bundle, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", filepath.Join(bundle, "real"), "./plugin/testdata/greeter").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	script := fmt.Sprintf("#!/bin/sh\nuntil [ -e %s ]; do sleep 0.05; done\nexec \"$(dirname \"$0\")/real\"\n", d.open)
	text, err := os.ReadFile("plugin/testdata/greeter/manifest.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "\nartifacts: {files: [{path: real, digest: \"\"}]}\n"...)
	for name, data := range map[string][]byte{"greeter": []byte(script), manifest.File: text} {
		if err := os.WriteFile(filepath.Join(bundle, name), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := seal.Seal(t.Context(), bundle); err != nil {
		t.Fatal(err)
	}
	return d
}

// let lets the process start.
func (d doorkeeper) let(t *testing.T) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(d.open), 0o755), os.WriteFile(d.open, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
}

// runningKernel is a kernel in this process.
type runningKernel struct {
	*Kernel
	stop func()
}

// runKernel runs a kernel on a data directory; it does not wait until it is ready.
func runKernel(t *testing.T, data, text string) *runningKernel {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	text = "apiVersion: config.pintle.dev/v1alpha1\nkind: KernelConfiguration\napi: {bindAddress: 127.0.0.1, port: 0}\n" + text
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Source{File: file, Set: []string{"dataDir=" + data}})
	if err != nil {
		t.Fatal(err)
	}
	log := &bytes.Buffer{}
	k, err := New(cfg, Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	stopped := false
	r := &runningKernel{Kernel: k, stop: func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil && !strings.Contains(err.Error(), context.Canceled.Error()) {
			t.Errorf("run: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", log)
		}
	}}
	t.Cleanup(r.stop)
	return r
}

func (r *runningKernel) awaitReady(t *testing.T) {
	t.Helper()
	select {
	case <-r.Ready():
	case <-time.After(2 * time.Minute):
		t.Fatal("the kernel is not ready")
	}
}

// as is a client of somebody; it waits until the API answers.
func (r *runningKernel) as(t *testing.T, u user.Info) kubernetes.Interface {
	t.Helper()
	select {
	case <-r.api.Ready():
	case <-time.After(2 * time.Minute):
		t.Fatal("the api server is not ready")
	}
	rc := r.api.ClientConfig(u)
	rc.AcceptContentTypes, rc.ContentType = "application/json", "application/json" // Plugin objects have no other form
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (r *runningKernel) enable(t *testing.T, name string, enabled bool) {
	t.Helper()
	err := r.as(t, administrator).CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath("/apis/" + v1alpha1.SchemeGroupVersion.String() + "/plugins/" + name).
		Body([]byte(fmt.Sprintf(`{"spec":{"enabled":%v}}`, enabled))).Do(t.Context()).Error()
	if err != nil {
		t.Fatalf("enabled: %v of plugin %s: %v", enabled, name, err)
	}
}

// createPod asks for a pod, once.
func createPod(t *testing.T, client kubernetes.Interface, image string) error {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "p-"}, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "c", Image: image}},
	}}
	// The client would try again by itself what is refused for now.
	return client.CoreV1().RESTClient().Post().MaxRetries(0).Namespace(metav1.NamespaceDefault).Resource("pods").Body(pod).Do(t.Context()).Error()
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for limit := time.Now().Add(2 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

var (
	administrator  = &user.DefaultInfo{Name: "ann", Groups: []string{user.SystemPrivilegedGroup}}
	serviceAccount = &user.DefaultInfo{Name: "system:serviceaccount:default:builder", Groups: []string{user.SystemPrivilegedGroup}}
	// called bears the name of a part of the kernel and came in otherwise.
	called = rest.ImpersonationConfig{UserName: "system:pintle:plugin-host", Groups: []string{user.SystemPrivilegedGroup}}
)

// An admission plugin that its Plugin object enables reviews every request from
// the first that the API answers: while its bundle is starting, and where it
// cannot be started at all. A service account does not pass, nor who impersonates
// a part of the kernel.
func TestAdmissionHoldsFromTheStart(t *testing.T) {
	data := t.TempDir()
	d := newDoorkeeper(t, data)
	text := "plugins:\n  directories: [" + d.folder + "]\n  bundles:\n  - {name: greeter, transport: process}\nscheduler: {profiles: []}\n"
	d.let(t)
	first := runKernel(t, data, text)
	first.awaitReady(t)
	admin := first.as(t, administrator)
	if _, err := admin.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := createPod(t, admin, "latest"); err != nil {
		t.Fatalf("a pod before anything is enabled: %v", err)
	}
	eventually(t, "the Plugin object is there", func() bool {
		return admin.CoreV1().RESTClient().Get().AbsPath("/apis/"+v1alpha1.SchemeGroupVersion.String()+"/plugins/refuse").Do(t.Context()).Error() == nil
	})
	first.enable(t, "refuse", true)
	eventually(t, "the plugin refuses", func() bool { return apierrors.IsForbidden(createPod(t, admin, "latest")) })
	first.stop()

	// Its bundle hangs at the start.
	if err := os.Remove(d.open); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	second := runKernel(t, data, text)
	account := second.as(t, serviceAccount)
	disguised := second.api.ClientConfig(administrator)
	disguised.Impersonate = called
	other, err := kubernetes.NewForConfig(disguised)
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 2)
	go func() { refused <- createPod(t, account, "latest") }()
	go func() { refused <- createPod(t, other, "latest") }()
	for range 2 {
		if err := <-refused; !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "admission plugins are starting") {
			t.Errorf("a pod while the plugin starts: %v, want that plugins are starting", err)
		}
	}
	select {
	case <-second.Ready():
		t.Error("the kernel is ready without the plugin")
	default:
	}
	d.let(t)
	second.awaitReady(t)
	if err := createPod(t, account, "latest"); !apierrors.IsForbidden(err) {
		t.Errorf("a pod when the plugin runs: %v, want its refusal", err)
	}
	if err := createPod(t, account, "fine"); err != nil {
		t.Errorf("a pod that it lets through: %v", err)
	}
	second.stop()

	// It is not there any more: what it would review is refused until somebody says
	// that it shall not be reviewed.
	third := runKernel(t, data, "plugins:\n  directories: ["+d.folder+"]\nscheduler: {profiles: []}\n")
	third.awaitReady(t)
	account = third.as(t, serviceAccount)
	err = createPod(t, account, "fine")
	if want := `failed calling admission plugin "refuse": it is enabled and not in force: plugin refuse: its bundle greeter is not loaded`; !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("a pod while the plugin is gone: %v, want %q", err, want)
	}
	third.enable(t, "refuse", false)
	eventually(t, "pods pass again", func() bool { return createPod(t, account, "latest") == nil })
}

// Who asks for the plugins when the kernel is ready is told of all of them.
func TestReadyMeansAllPlugins(t *testing.T) {
	data := t.TempDir()
	d := newDoorkeeper(t, data)
	d.let(t)
	k := runKernel(t, data, "plugins:\n  directories: ["+d.folder+"]\n  bundles:\n  - {name: greeter, transport: process}\nscheduler: {profiles: []}\n")
	client := k.as(t, administrator).CoreV1().RESTClient()
	k.awaitReady(t)
	text, err := client.Get().AbsPath("/apis/" + v1alpha1.SchemeGroupVersion.String() + "/plugins").Do(t.Context()).Raw()
	if err != nil {
		t.Fatal(err)
	}
	var list v1alpha1.PluginList
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
		if list.Items[i].Status.State == "" {
			t.Errorf("plugin %s has no state when the kernel is ready", list.Items[i].Name)
		}
	}
	slices.Sort(names)
	if want := []string{"greeter", "label", "refuse"}; !slices.Equal(names, want) {
		t.Errorf("plugins when the kernel is ready: %q, want %q", names, want)
	}
}
