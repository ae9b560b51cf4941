package admission

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// Names that nobody knows, and both at once, are refused with what there is.
func TestSelected(t *testing.T) {
	for _, tc := range []struct {
		enable, disable []string
		fault           string
	}{
		{nil, nil, ""},
		{[]string{"AlwaysPullImages", "LimitRanger"}, []string{"PodSecurity", "ResourceQuota"}, ""},
		{[]string{"AlwaysPull"}, nil, `no plugin is called "AlwaysPull"; those that can be enabled and disabled are NamespaceAutoProvision, NamespaceLifecycle,`},
		{nil, []string{"PluginSpec"}, `no plugin is called "PluginSpec"`},
		{[]string{"PodSecurity"}, []string{"PodSecurity"}, "both enabled and disabled"},
	} {
		got, err := selected(tc.enable, tc.disable)
		if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%v %v: %v", tc.enable, tc.disable, err)
		}
		for _, name := range tc.enable {
			if err == nil && !got[name] {
				t.Errorf("%s is not enabled", name)
			}
		}
		for _, name := range tc.disable {
			if err == nil && got[name] {
				t.Errorf("%s is not disabled", name)
			}
		}
	}
}

// The plugins stand in upstream's order, and those that it has on by default are on, as its
// pkg/kubeapiserver/options/plugins.go of 1.36.3 has them. NodeRestriction is on here too.
func TestOrderIsUpstreams(t *testing.T) {
	data, err := os.ReadFile("../testdata/upstream/kubernetes-1.36.txt")
	if err != nil {
		t.Fatal(err)
	}
	on, err := selected(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "admission" || !slices.Contains(Names(), fields[1]) {
			continue // of those that are not there KUBERNETES.md says why
		}
		order = append(order, fields[1])
		if want := fields[2] == "on" || fields[1] == "NodeRestriction"; on[fields[1]] != want {
			t.Errorf("%s is on: %t, want %t", fields[1], !want, want)
		}
	}
	if !slices.Equal(Names(), order) {
		t.Errorf("the order is\n%v, upstream's\n%v", Names(), order)
	}
}

func podWith(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: named("p"), Spec: corev1.PodSpec{ServiceAccountName: "default", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	change(p)
	return p
}

// What each plugin does when it is enabled, and that it does nothing when it is not.
func TestSwitches(t *testing.T) {
	antiAffinity := func(key string) *corev1.Pod {
		return podWith(func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: key, LabelSelector: &metav1.LabelSelector{}}}}}
		})
	}
	service := func(ips ...string) *corev1.Service {
		return &corev1.Service{ObjectMeta: named("s"), Spec: corev1.ServiceSpec{ExternalIPs: ips}}
	}
	for _, tc := range []struct {
		plugin   string
		op       admission.Operation
		resource string
		sub      string
		obj, old runtime.Object
		fault    string                      // with the plugin
		check    func(runtime.Object) string // what it changed
		want     string
	}{
		{plugin: "DenyServiceExternalIPs", op: admission.Create, resource: "services", obj: service("192.0.2.1"), fault: "Use of external IPs is denied by admission control"},
		{plugin: "DenyServiceExternalIPs", op: admission.Create, resource: "services", obj: service()},
		{plugin: "DenyServiceExternalIPs", op: admission.Update, resource: "services", obj: service("192.0.2.1"), old: service("192.0.2.1", "192.0.2.2")},
		{plugin: "DenyServiceExternalIPs", op: admission.Update, resource: "services", obj: service("192.0.2.1", "192.0.2.3"), old: service("192.0.2.1", "192.0.2.2"), fault: "external IPs"},
		{plugin: "LimitPodHardAntiAffinityTopology", op: admission.Create, resource: "pods", obj: antiAffinity("zone"), fault: "has TopologyKey zone but only key kubernetes.io/hostname is allowed"},
		{plugin: "LimitPodHardAntiAffinityTopology", op: admission.Create, resource: "pods", obj: antiAffinity("kubernetes.io/hostname")},
		{plugin: "AlwaysPullImages", op: admission.Create, resource: "pods", want: "Always Always Always", obj: podWith(func(p *corev1.Pod) {
			p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "i"}}
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "i"}}}}
		}), check: func(o runtime.Object) string {
			s := o.(*corev1.Pod).Spec
			return fmt.Sprint(s.Containers[0].ImagePullPolicy, " ", s.InitContainers[0].ImagePullPolicy, " ", s.Volumes[0].Image.PullPolicy)
		}},
		{plugin: "AlwaysPullImages", op: admission.Update, resource: "pods", sub: "ephemeralcontainers", want: "Always", old: podWith(func(*corev1.Pod) {}), obj: podWith(func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "private"}}}
		}), check: func(o runtime.Object) string {
			return string(o.(*corev1.Pod).Spec.EphemeralContainers[0].ImagePullPolicy)
		}},
		{plugin: "ExtendedResourceToleration", op: admission.Create, resource: "pods", want: "example.com/gpu", obj: podWith(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = quantities("example.com/gpu", "1", "cpu", "1", "requests.example.com/x", "1", "node.kubernetes.io/y", "1")
		}), check: func(o runtime.Object) string {
			var keys []string
			for _, t := range o.(*corev1.Pod).Spec.Tolerations {
				if !strings.HasPrefix(t.Key, "node.kubernetes.io/") {
					keys = append(keys, t.Key)
				}
			}
			return strings.Join(keys, " ")
		}},
		{plugin: "PodNodeSelector", op: admission.Create, resource: "pods", want: "map[disk:fast zone:a]", obj: podWith(func(p *corev1.Pod) {
			p.Namespace, p.Spec.NodeSelector = "selected", map[string]string{"disk": "fast"}
		}), check: func(o runtime.Object) string { return fmt.Sprint(o.(*corev1.Pod).Spec.NodeSelector) }},
		{plugin: "PodNodeSelector", op: admission.Create, resource: "pods", fault: "pod node label selector conflicts with its namespace node label selector", obj: podWith(func(p *corev1.Pod) {
			p.Namespace, p.Spec.NodeSelector = "selected", map[string]string{"zone": "b"}
		})},
	} {
		t.Run(tc.plugin, func(t *testing.T) {
			for _, on := range []bool{true, false} {
				deps := Deps{Enable: []string{tc.plugin}}
				if !on {
					deps = Deps{Disable: []string{tc.plugin}}
				}
				c := newTestChainOf(t, deps)
				obj := tc.obj.DeepCopyObject()
				err := c.run(t.Context(), tc.op, admin, tc.resource, tc.sub, obj, tc.old)
				if on && tc.fault != "" {
					if err == nil || !strings.Contains(err.Error(), tc.fault) {
						t.Errorf("got %v, want %q", err, tc.fault)
					}
					continue
				}
				if err != nil {
					t.Errorf("enabled %t: %v", on, err)
				}
				if tc.check != nil && (tc.check(obj) == tc.want) != on {
					t.Errorf("enabled %t: %s", on, tc.check(obj))
				}
			}
		})
	}
}

// Claims without a class have the newest default one; none of those that say.
func TestDefaultStorageClass(t *testing.T) {
	class := func(name, mark string, age time.Duration, grows bool) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": mark}, CreationTimestamp: metav1.NewTime(time.Unix(1000, 0).Add(-age))}, AllowVolumeExpansion: &grows}
	}
	classes := []runtime.Object{class("old", "true", time.Hour, false), class("b", "true", 0, true), class("a", "true", 0, true), class("newest", "false", -time.Hour, true)}
	client := fake.NewClientset(append(cluster(), classes...)...)
	factory := informers.NewSharedInformerFactory(client, 0)
	handler, err := NewChain(Deps{Client: client, Informers: factory, Stop: t.Context().Done()})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	c := chain{handler, client}
	claim := func(class *string, size string, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: named("c"), Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: class,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}}}, Status: corev1.PersistentVolumeClaimStatus{Phase: phase}}
	}
	for _, tc := range []struct {
		given *string
		want  string
	}{{nil, "a"}, {ptr(""), ""}, {ptr("old"), "old"}} {
		o := claim(tc.given, "1Gi", "")
		if err := c.run(t.Context(), admission.Create, admin, "persistentvolumeclaims", "", o, nil); err != nil || o.Spec.StorageClassName == nil || *o.Spec.StorageClassName != tc.want {
			t.Errorf("given %v: %v, %v; want %s", tc.given, o.Spec.StorageClassName, err, tc.want)
		}
	}
	for name, tc := range map[string]struct {
		class *string
		phase corev1.PersistentVolumeClaimPhase
		size  string
		fault string
	}{
		"grows":         {ptr("a"), corev1.ClaimBound, "2Gi", ""},
		"the same":      {ptr("old"), corev1.ClaimPending, "1Gi", ""},
		"not bound":     {ptr("a"), corev1.ClaimPending, "2Gi", "Only bound persistent volume claims can be expanded"},
		"may not":       {ptr("old"), corev1.ClaimBound, "2Gi", "must support resize"},
		"no class":      {nil, corev1.ClaimBound, "2Gi", "must support resize"},
		"class is gone": {ptr("gone"), corev1.ClaimBound, "2Gi", "must support resize"},
	} {
		err := c.run(t.Context(), admission.Update, admin, "persistentvolumeclaims", "", claim(tc.class, tc.size, tc.phase), claim(tc.class, "1Gi", tc.phase))
		if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%s: %v, want %q", name, err, tc.fault)
		}
	}
}

// Ingresses without a class have the newest default one; none of those that say.
func TestDefaultIngressClass(t *testing.T) {
	class := func(name, mark string, age time.Duration) *networkingv1.IngressClass {
		return &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{networkingv1.AnnotationIsDefaultIngressClass: mark}, CreationTimestamp: metav1.NewTime(time.Unix(1000, 0).Add(-age))}}
	}
	classes := []runtime.Object{class("old", "true", time.Hour), class("b", "true", 0), class("a", "true", 0), class("newest", "false", -time.Hour)}
	client := fake.NewClientset(append(cluster(), classes...)...)
	factory := informers.NewSharedInformerFactory(client, 0)
	handler, err := NewChain(Deps{Client: client, Informers: factory, Stop: t.Context().Done()})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	c := chain{handler, client}
	for _, tc := range []struct {
		given *string
		note  map[string]string
		want  *string
	}{{nil, nil, ptr("a")}, {ptr("old"), nil, ptr("old")}, {nil, map[string]string{"kubernetes.io/ingress.class": ""}, nil}} {
		o := &networkingv1.Ingress{ObjectMeta: named("i"), Spec: networkingv1.IngressSpec{IngressClassName: tc.given}}
		o.Annotations = tc.note
		err := c.run(t.Context(), admission.Create, admin, "ingresses", "", o, nil)
		if got := o.Spec.IngressClassName; err != nil || (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
			t.Errorf("given %v, %v: %v, %v", tc.given, tc.note, got, err)
		}
	}
}

// The defaults of PodSecurity hold where a namespace says nothing; those that are
// exempt, and those whose labels say otherwise, are free.
func TestPodSecurityDefaults(t *testing.T) {
	c := newTestChainOf(t, Deps{PodSecurity: []byte(`
apiVersion: pod-security.admission.config.k8s.io/v1
kind: PodSecurityConfiguration
defaults: {enforce: baseline}
exemptions: {namespaces: [limited]}
`)})
	pod := func(namespace string, change func(*corev1.PodSpec)) *corev1.Pod {
		return podWith(func(p *corev1.Pod) { p.Namespace = namespace; change(&p.Spec) })
	}
	yes := true
	for name, change := range map[string]func(*corev1.PodSpec){
		"privileged": func(s *corev1.PodSpec) { s.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes} },
		"hostPath": func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		},
		"host namespaces": func(s *corev1.PodSpec) { s.HostPID = true },
		"host port": func(s *corev1.PodSpec) {
			s.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 1, HostPort: 6443}}
		},
	} {
		if err := c.run(t.Context(), admission.Create, admin, "pods", "", pod("ns", change), nil); err == nil || !strings.Contains(err.Error(), `violates PodSecurity "baseline:latest"`) {
			t.Errorf("%s: %v", name, err)
		}
		for _, namespace := range []string{"limited", "free"} {
			if err := c.run(t.Context(), admission.Create, admin, "pods", "", pod(namespace, change), nil); err != nil && strings.Contains(err.Error(), "PodSecurity") {
				t.Errorf("%s in %s: %v", name, namespace, err)
			}
		}
	}
	if err := c.run(t.Context(), admission.Create, admin, "pods", "", pod("ns", func(*corev1.PodSpec) {}), nil); err != nil {
		t.Errorf("a plain pod: %v", err)
	}
	if _, err := NewChain(Deps{Client: c.client, Informers: informers.NewSharedInformerFactory(c.client, 0), Stop: t.Context().Done(),
		PodSecurity: []byte(`{"apiVersion":"pod-security.admission.config.k8s.io/v1","kind":"PodSecurityConfiguration","defaults":{"enforce":"strict"}}`)}); err == nil || !strings.Contains(err.Error(), "PodSecurity") {
		t.Errorf("a level that is none: %v", err)
	}
}

// EventRateLimit is not without limits, and limits are not without it.
func TestEventRateLimitConfiguration(t *testing.T) {
	limits := []byte(`{"apiVersion":"eventratelimit.admission.k8s.io/v1alpha1","kind":"Configuration","limits":[{"type":"Server","qps":1,"burst":1}]}`)
	for _, tc := range []struct {
		enable []string
		limits []byte
		fault  string
	}{
		{nil, nil, ""},
		{[]string{"EventRateLimit"}, limits, ""},
		{[]string{"EventRateLimit"}, nil, "plugin EventRateLimit: it has no configuration"},
		{nil, limits, "plugin EventRateLimit has a configuration and is not enabled; add it to admission.enable"},
	} {
		client := fake.NewClientset()
		_, err := NewChain(Deps{Client: client, Informers: informers.NewSharedInformerFactory(client, 0), Stop: t.Context().Done(), Enable: tc.enable, EventRateLimit: tc.limits})
		if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%v %s: %v, want %q", tc.enable, tc.limits, err, tc.fault)
		}
	}
}

func TestStorageObjectInUseProtection(t *testing.T) {
	client := fake.NewClientset(cluster()...)
	factory := informers.NewSharedInformerFactory(client, 0)
	handler, err := NewChain(Deps{Client: client, Informers: factory, Stop: t.Context().Done()})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	c := chain{handler, client}
	const other = "example.com/other"
	for _, tc := range []struct {
		resource  string
		operation admission.Operation
		object    metav1.Object
		old       runtime.Object
		want      []string
	}{
		{"persistentvolumeclaims", admission.Create, &corev1.PersistentVolumeClaim{}, nil, []string{"kubernetes.io/pvc-protection"}},
		{"persistentvolumeclaims", admission.Create, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"kubernetes.io/pvc-protection", other}}}, nil, []string{"kubernetes.io/pvc-protection", other}},
		{"persistentvolumes", admission.Create, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{other}}}, nil, []string{other, "kubernetes.io/pv-protection"}},
		{"volumeattributesclasses", admission.Create, &storagev1.VolumeAttributesClass{}, nil, []string{"kubernetes.io/vac-protection"}},
		{"configmaps", admission.Create, &corev1.ConfigMap{}, nil, nil},
		{"persistentvolumes", admission.Update, &corev1.PersistentVolume{}, &corev1.PersistentVolume{}, nil},
	} {
		tc.object.SetName("o")
		if err := c.run(t.Context(), tc.operation, admin, tc.resource, "", tc.object.(runtime.Object), tc.old); err != nil {
			t.Errorf("%s %s: %v", tc.operation, tc.resource, err)
		}
		if got := tc.object.GetFinalizers(); !slices.Equal(got, tc.want) {
			t.Errorf("%s %s: finalizers %q, want %q", tc.operation, tc.resource, got, tc.want)
		}
	}
}
