package container

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type objects struct {
	maps    map[string]map[string]string
	secrets map[string]map[string][]byte
}

func (o objects) ConfigMap(_ context.Context, _, name string) (*corev1.ConfigMap, error) {
	if d, ok := o.maps[name]; ok {
		return &corev1.ConfigMap{Data: d}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

func (o objects) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	if d, ok := o.secrets[name]; ok {
		return &corev1.Secret{Data: d}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

func service(ns, name, ip string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports}}
}

// TestEnv: 001 §5 and 002 §19, §20: order of sources, expansion, optional references, skipped names, service links.
func TestEnv(t *testing.T) {
	yes, no := true, false
	src := objects{
		maps:    map[string]map[string]string{"cm": {"K": "from map", "=bad": "x"}},
		secrets: map[string]map[string][]byte{"s": {"PASS": []byte("p")}},
	}
	services := []*corev1.Service{
		service("default", "kubernetes", "10.0.0.1", corev1.ServicePort{Port: 443, Name: "https"}),
		service("ns", "redis-master", "10.0.0.11", corev1.ServicePort{Port: 6379}),
		service("ns", "headless", corev1.ClusterIPNone, corev1.ServicePort{Port: 1}),
		service("other", "far", "10.0.0.12", corev1.ServicePort{Port: 1}),
	}
	ref := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	for _, c := range []struct {
		name  string
		links *bool
		from  []corev1.EnvFromSource
		env   []corev1.EnvVar
		want  []string
		not   []string
		skip  []string
		err   string
	}{
		{name: "later references earlier", env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)$$(A)$(C)"}, {Name: "C", Value: "3"}}, want: []string{"A=1", "B=1$(A)$(C)", "C=3"}},
		{name: "envFrom with prefix, env wins, bad names skipped", from: []corev1.EnvFromSource{{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("cm")}}}, env: []corev1.EnvVar{{Name: "P_K", Value: "mine"}}, want: []string{"P_K=mine"}, skip: []string{"=bad"}},
		{name: "secret key", env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("s"), Key: "PASS"}}}}, want: []string{"X=p"}},
		{name: "missing key", env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("s"), Key: "NONE"}}}}, err: "couldn't find key NONE in Secret ns/s"},
		{name: "missing map", from: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("none")}}}, err: `configmaps "none" not found`},
		{name: "optional", from: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("none"), Optional: &yes}}}, env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("cm"), Key: "NONE", Optional: &yes}}}}, not: []string{"X="}},
		{name: "fields", env: []corev1.EnvVar{
			{Name: "L", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}}},
			{Name: "H", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.hostIP"}}},
			{Name: "M", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Mi")}}},
			{Name: "C", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu", Divisor: resource.MustParse("1m")}}},
		}, want: []string{"L=web", "H=1.2.3.4", "M=1024", "C=250"}},
		{name: "services", want: []string{"REDIS_MASTER_SERVICE_HOST=10.0.0.11", "REDIS_MASTER_SERVICE_PORT=6379", "REDIS_MASTER_PORT=tcp://10.0.0.11:6379", "REDIS_MASTER_PORT_6379_TCP=tcp://10.0.0.11:6379", "REDIS_MASTER_PORT_6379_TCP_PROTO=tcp", "REDIS_MASTER_PORT_6379_TCP_PORT=6379", "REDIS_MASTER_PORT_6379_TCP_ADDR=10.0.0.11", "KUBERNETES_SERVICE_PORT_HTTPS=443"}, not: []string{"HEADLESS_", "FAR_"}},
		{name: "no links", links: &no, want: []string{"KUBERNETES_SERVICE_HOST=10.0.0.1"}, not: []string{"REDIS_"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{EnableServiceLinks: c.links}}
			ct := &corev1.Container{Name: "c", EnvFrom: c.from, Env: c.env, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}}}
			var skipped []string
			list, _, err := Env(t.Context(), EnvInput{Pod: pod, Container: ct, Services: services, Addresses: Addresses{HostIPs: []string{"1.2.3.4"}},
				Allocatable: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")},
				Skipped:     func(_, _ string, keys []string) { skipped = keys }}, src)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, kv := range list {
				got = append(got, kv.Key+"="+string(kv.Value))
			}
			for _, w := range c.want {
				if !slices.Contains(got, w) {
					t.Errorf("lacks %s: %v", w, got)
				}
			}
			for _, n := range c.not {
				if slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, n) }) {
					t.Errorf("has %s: %v", n, got)
				}
			}
			if !slices.Equal(skipped, c.skip) {
				t.Errorf("skipped %v, want %v", skipped, c.skip)
			}
		})
	}
}

func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "$", "$$", "$(A)", "$(", "$()", "a$(A", "$$(A)", "$(B)$(A)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		known := Expand(s, func(name string) (string, bool) { return "", name == "A" })
		if !strings.Contains(s, "$") && known != s {
			t.Fatalf("%q became %q", s, known)
		}
		if len(known) > len(s) {
			t.Fatalf("%q grew to %q", s, known)
		}
	})
}

// TestResources: 002 §21, 001 §14: cgroup values, quality of service, and the order of the OOM killer.
func TestResources(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	const gi = 1 << 30
	for _, c := range []struct {
		name             string
		requests, limits corev1.ResourceList
		qos              corev1.PodQOSClass
		shares, quota    int64
		memory, oom      int64
	}{
		{"nothing", nil, nil, corev1.PodQOSBestEffort, 2, 0, 0, 1000},
		{"equal", list("500m", "1Gi"), list("500m", "1Gi"), corev1.PodQOSGuaranteed, 512, 50000, gi, -997},
		{"limits only", nil, list("2", "1Gi"), corev1.PodQOSGuaranteed, 2048, 200000, gi, -997},
		{"quarter of the node", list("100m", "1Gi"), nil, corev1.PodQOSBurstable, 102, 0, 0, 750},
		{"tiny", list("1m", "1"), list("5m", ""), corev1.PodQOSBurstable, 2, 1000, 0, 999},
		{"all of the node", list("", "4Gi"), nil, corev1.PodQOSBurstable, 2, 0, 0, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: c.requests, Limits: c.limits}}}}}
			if got := QOS(pod); got != c.qos {
				t.Errorf("class %s, want %s", got, c.qos)
			}
			r := Resources(pod, &pod.Spec.Containers[0], 4*gi)
			if r.CpuShares != c.shares || r.CpuQuota != c.quota || r.MemoryLimitInBytes != c.memory || r.OomScoreAdj != c.oom {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// TestUnified: NODE-11: what the node wants of containers' cgroups on v2 reaches the runtime beside the limits.
func TestUnified(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	config, err := Config(Input{Pod: pod, Container: &pod.Spec.Containers[0], Unified: map[string]string{"memory.oom.group": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	if r := config.Linux.Resources; r.Unified["memory.oom.group"] != "1" || r.CpuShares != 2 {
		t.Errorf("got %v", r)
	}
}
