package image

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"pintle.dev/pintle/kernel/node/cri"
	"pintle.dev/pintle/kernel/node/cri/critest"
	"pintle.dev/pintle/kernel/node/image/pullrecord"
)

// TestKeyring: 001 §4: globs a label, path prefixes, ports, every match in turn with the most specific first.
func TestKeyring(t *testing.T) {
	var ring Keyring
	auth := base64.StdEncoding.EncodeToString([]byte("bob:secret:word"))
	config := fmt.Sprintf(`{"auths":{
		"https://index.docker.io/v1/":{"username":"hub","password":"p"},
		"*.example.com":{"auth":%q},
		"my-registry.io/images":{"username":"outer","password":"p"},
		"my-registry.io/images/subpath":{"username":"inner","password":"p"},
		"local:5000":{"username":"port","password":"p"}}}`, auth)
	if err := ring.AddConfig([]byte(config), false); err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string][]string{
		"busybox":                                        {"hub"},
		"docker.io/library/busybox:1":                    {"hub"},
		"a.example.com/x":                                {"bob"},
		"a.b.example.com/x":                              nil,
		"example.com/x":                                  nil,
		"my-registry.io/images/subpath/my:1":             {"inner", "outer"},
		"my-registry.io/images/other":                    {"outer"},
		"my-registry.io/else":                            nil,
		"local:5000/x@sha256:" + strings.Repeat("a", 64): {"port"},
		"local:5001/x":                                   nil,
	} {
		var got []string
		for _, a := range ring.For(image) {
			got = append(got, a.Username)
			if a.Username == "bob" && a.Password != "secret:word" {
				t.Errorf("password %q", a.Password)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", image, got, want)
		}
	}
	if err := ring.AddConfig([]byte(`{"auths": hunter2`), false); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error %v: must be one and must not quote the secret", err)
	}
}

func FuzzKeyring(f *testing.F) {
	f.Add([]byte(`{"auths":{"a.io":{"auth":"YTpi"}}}`), "a.io/x")
	f.Add([]byte(`{"auths":{"[":{}}}`), "x")
	f.Fuzz(func(_ *testing.T, data []byte, image string) {
		var ring Keyring
		if ring.AddConfig(data, false) == nil {
			ring.For(image)
		}
	})
}

// TestPull: 001 §2, §3: policies, credentials tried in turn, back-off after a failure.
func TestPull(t *testing.T) {
	r := critest.New(t)
	client, err := cri.Dial(r.Endpoint, "n")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var events []string
	p := NewPuller(Config{Serialize: true, BackOff: time.Minute}, client, func(_ *corev1.Pod, _, _, reason, message string) { events = append(events, reason+": "+message) }, slog.New(slog.DiscardHandler))
	pod := &corev1.Pod{}
	ct := func(image string, policy corev1.PullPolicy) *corev1.Container {
		return &corev1.Container{Name: "c", Image: image, ImagePullPolicy: policy}
	}
	if img, err := p.Ensure(t.Context(), pod, ct("x", corev1.PullIfNotPresent), nil, nil); err != nil || img.Ref != "sha256:x:latest" {
		t.Fatalf("%+v %v", img, err)
	}
	if !strings.HasPrefix(events[1], `Pulled: Successfully pulled image "x" in `) || !strings.HasSuffix(events[1], "including waiting). Image size: 100 bytes.") {
		t.Fatal(events)
	}
	pulls := func() (n int) {
		for _, c := range r.Called() {
			if strings.HasPrefix(c, "PullImage") {
				n++
			}
		}
		return n
	}
	if _, err := p.Ensure(t.Context(), pod, ct("x", corev1.PullIfNotPresent), nil, nil); err != nil || pulls() != 1 {
		t.Fatalf("present image: %v, %d pulls", err, pulls())
	}
	if _, err := p.Ensure(t.Context(), pod, ct("x", corev1.PullAlways), nil, nil); err != nil || pulls() != 2 {
		t.Fatalf("policy Always: %v, %d pulls", err, pulls())
	}
	var users []string
	r.Lock()
	r.OnPull = func(_ string, a *runtimeapi.AuthConfig) error {
		users = append(users, a.GetUsername())
		if a.GetUsername() != "right" {
			return fmt.Errorf("denied")
		}
		return nil
	}
	r.Unlock()
	secret := &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(
		`{"auths":{"reg.io/a/b":{"username":"wrong"},"reg.io/a":{"username":"right"}}}`)}}
	if _, err := p.Ensure(t.Context(), pod, ct("reg.io/a/b/c", corev1.PullIfNotPresent), []*corev1.Secret{secret}, nil); err != nil || !slices.Equal(users, []string{"wrong", "right"}) {
		t.Fatalf("credentials: %v %v", err, users)
	}
	_, err = p.Ensure(t.Context(), pod, ct("reg.io/z", corev1.PullIfNotPresent), nil, nil)
	if e, ok := err.(*Error); !ok || e.Reason != ReasonPull {
		t.Fatal(err)
	}
	_, err = p.Ensure(t.Context(), pod, ct("reg.io/z", corev1.PullIfNotPresent), nil, nil)
	if e, ok := err.(*Error); !ok || e.Reason != ReasonBackOff || e.Message != `Back-off pulling image "reg.io/z": ErrImagePull: denied` {
		t.Fatal(err)
	}
}

// TestSecretPulledImages: M8: an image that one pod's secret fetched is not another pod's, whatever its pull policy, and
// a pod that may not use it does not learn that it is here.
func TestSecretPulledImages(t *testing.T) {
	r := critest.New(t)
	client, err := cri.Dial(r.Endpoint, "n")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	records, err := pullrecord.Open(t.TempDir(), pullrecord.Policy{Mode: kubeletv1beta1.NeverVerifyPreloadedImages})
	if err != nil {
		t.Fatal(err)
	}
	r.AddImage("preloaded:1")
	r.OnPull = func(image string, a *runtimeapi.AuthConfig) error {
		if strings.HasPrefix(image, "reg.io/private") && a.GetPassword() != "right" {
			return fmt.Errorf("denied")
		}
		return nil
	}
	p := NewPuller(Config{Records: records}, client, func(*corev1.Pod, string, string, string, string) {}, slog.New(slog.DiscardHandler))
	secret := func(uid, password string) []*corev1.Secret {
		s := &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"reg.io/private":{"username":"u","password":"` + password + `"}}}`)}}
		s.Namespace, s.Name, s.UID = "ns", "pull", types.UID(uid)
		return []*corev1.Secret{s}
	}
	for i, c := range []struct {
		image   string
		policy  corev1.PullPolicy
		secrets []*corev1.Secret
		want    Reason
		pulls   bool
	}{
		{"preloaded:1", corev1.PullNever, nil, "", false},
		{"reg.io/private/x:1", corev1.PullIfNotPresent, secret("a", "right"), "", true},
		{"reg.io/private/x:1", corev1.PullIfNotPresent, secret("a", "right"), "", false},
		{"reg.io/private/x:1", corev1.PullNever, secret("a", "right"), "", false},
		{"reg.io/private/x:1", corev1.PullIfNotPresent, nil, ReasonPull, true},
		{"reg.io/private/x:1", corev1.PullIfNotPresent, secret("b", "wrong"), ReasonPull, true},
		{"reg.io/private/x:1", corev1.PullNever, nil, ReasonNeverPull, false},
		{"reg.io/private/x:1", corev1.PullNever, secret("c", "right"), "", false},
		{"reg.io/open/y:1", corev1.PullIfNotPresent, nil, "", true},
		{"reg.io/open/y:1", corev1.PullNever, nil, "", false},
	} {
		pod := &corev1.Pod{}
		pod.UID = types.UID(fmt.Sprint(i)) // back-off is a pod's own
		before := len(r.Called())
		_, err := p.Ensure(t.Context(), pod, &corev1.Container{Name: "c", Image: c.image, ImagePullPolicy: c.policy}, c.secrets, nil)
		got := Reason("")
		if err != nil {
			got = err.(*Error).Reason
		}
		if got != c.want {
			t.Errorf("%d: %v, want %q", i, err, c.want)
		}
		if pulls := slices.ContainsFunc(r.Called()[before:], func(call string) bool { return strings.HasPrefix(call, "PullImage") }); pulls != c.pulls {
			t.Errorf("%d: pulls %t, want %t", i, pulls, c.pulls)
		}
		if c.want == ReasonNeverPull && strings.Replace(err.(*Error).Message, c.image, "absent:1", 1) != `Container image "absent:1" is not present with pull policy of Never` {
			t.Errorf("%d tells: %v", i, err)
		}
	}
}

// TestImageGC: IGC-1 … IGC-11.
func TestImageGC(t *testing.T) {
	for _, c := range []struct {
		name    string
		fs      FS
		age     time.Duration
		removed []string
		event   string
	}{
		{"capacity 0 (IGC-3)", FS{0, 0}, time.Hour, nil, "InvalidDiskCapacity"},
		{"below the threshold (IGC-4)", FS{1000, 849}, time.Hour, nil, ""},
		{"at the threshold: oldest unused until enough (IGC-5, IGC-7, IGC-8)", FS{1000, 900}, time.Hour, []string{"old"}, ""},
		{"images in use stay, target missed (IGC-9, IGC-10)", FS{1000, 1000}, time.Hour, []string{"old", "newer"}, ""},
		{"too young (IGC-8)", FS{1000, 900}, time.Second, nil, "FreeDiskSpaceFailed"},
		{"never enough (IGC-10)", FS{10000, 10000}, time.Hour, []string{"old", "newer"}, "FreeDiskSpaceFailed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := critest.New(t)
			client, err := cri.Dial(r.Endpoint, "n")
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			now := time.Now()
			var event string
			gc := NewCollector(GCPolicy{High: 85, Low: 80, MinAge: 2 * time.Minute}, client, func(context.Context) (FS, error) { return c.fs, nil },
				func(_, reason, _ string) { event = reason }, slog.New(slog.DiscardHandler))
			gc.now = func() time.Time { return now }
			r.AddImage("docker.io/library/files:latest")
			gc.Mounted = func() []string { return []string{"files"} }
			r.AddImage("used")
			r.AddImage("old")
			r.Containers["c"] = &critest.Container{ID: "c", Config: &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{}}, Status: &runtimeapi.ContainerStatus{ImageRef: "sha256:used", Image: &runtimeapi.ImageSpec{Image: "used"}}}
			if err := gc.Scan(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			now = now.Add(c.age)
			r.AddImage("newer")
			if err := gc.Scan(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			now = now.Add(c.age)
			_ = gc.Collect(t.Context())
			var removed []string
			for _, call := range r.Called() {
				if id, ok := strings.CutPrefix(call, "RemoveImage sha256:"); ok {
					removed = append(removed, id)
				}
			}
			if !slices.Equal(removed, c.removed) || event != c.event {
				t.Fatalf("removed %v, want %v; event %q, want %q", removed, c.removed, event, c.event)
			}
		})
	}
}
