package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

// full refers to an object in each way there is; the names end in the node's.
func full(node string) *corev1.Pod {
	env := func(secret, configMap string) ([]corev1.EnvVar, []corev1.EnvFromSource) {
		return []corev1.EnvVar{
				{Name: "plain", Value: "x"},
				{Name: "a", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named(secret + "-key-" + node)}}},
				{Name: "b", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named(configMap + "-key-" + node)}}},
			}, []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named(secret + "-from-" + node)}},
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named(configMap + "-from-" + node)}},
			}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + node}, Spec: corev1.PodSpec{
		NodeName: node, ServiceAccountName: "account-" + node, ImagePullSecrets: []corev1.LocalObjectReference{named("pull-" + node)},
		InitContainers:      make([]corev1.Container, 1),
		Containers:          make([]corev1.Container, 1),
		EphemeralContainers: make([]corev1.EphemeralContainer, 1),
		Volumes: []corev1.Volume{
			{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume-" + node}}},
			{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("map-" + node)}}},
			{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: named("projected-" + node)}},
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("projected-map-" + node)}},
			}}}},
			{Name: "i", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: &corev1.LocalObjectReference{Name: "csi-" + node}}}},
			{Name: "claim", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim-" + node}}},
			{Name: "own", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
		},
	}}
	p.Spec.InitContainers[0].Env, p.Spec.InitContainers[0].EnvFrom = env("init", "init-map")
	p.Spec.Containers[0].Env, p.Spec.Containers[0].EnvFrom = env("main", "main-map")
	p.Spec.EphemeralContainers[0].Env, p.Spec.EphemeralContainers[0].EnvFrom = env("debug", "debug-map")
	return p
}

func newAuthorizer(t *testing.T, pods ...*corev1.Pod) *Authorizer {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	a := New(factory.Core().V1().PersistentVolumeClaims())
	a.patience = 0
	list := make([]any, 0, len(pods))
	for _, p := range pods {
		list = append(list, p)
	}
	if err := a.pods.Replace(list, "1"); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"n1", "n2"} {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim-" + node}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "volume-" + node}}
		if err := factory.Core().V1().PersistentVolumeClaims().Informer().GetIndexer().Add(claim); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// know is what the reflector does with a pod.
func know(t *testing.T, a *Authorizer, p *corev1.Pod) {
	t.Helper()
	if err := a.pods.Add(p); err != nil {
		t.Fatal(err)
	}
}

var self = &user.DefaultInfo{Name: "system:node:n1", Groups: []string{user.NodesGroup, user.AllAuthenticated}}

func ask(verb, group, resource, sub, namespace, name string) authorizer.AttributesRecord {
	return authorizer.AttributesRecord{User: self, Verb: verb, APIGroup: group, Resource: resource, Subresource: sub, Namespace: namespace, Name: name, ResourceRequest: true}
}

// A node sees what its own pods need, in each way a pod can need it, and
// nothing of another node's.
func TestOwnAndOthers(t *testing.T) {
	a := newAuthorizer(t, full("n1"), full("n2"))
	for _, tt := range []struct {
		resource string
		names    []string
		verbs    []string
	}{
		{"secrets", []string{"pull", "volume", "projected", "csi", "init-key", "main-key", "debug-key", "init-from", "main-from", "debug-from"}, []string{"get", "list", "watch"}},
		{"configmaps", []string{"map", "projected-map", "init-map-key", "main-map-key", "debug-map-key", "init-map-from", "main-map-from", "debug-map-from"}, []string{"get", "list", "watch"}},
		{"persistentvolumeclaims", []string{"claim"}, []string{"get"}},
		{"persistentvolumes", []string{"volume"}, []string{"get"}},
		{"serviceaccounts", []string{"account"}, []string{"get"}},
		{"pods", []string{"pod"}, []string{"get"}},
	} {
		for _, name := range tt.names {
			for _, verb := range tt.verbs {
				for node, allowed := range map[string]bool{"n1": true, "n2": false, "n3": false} {
					decision, reason, err := a.Authorize(t.Context(), ask(verb, "", tt.resource, "", "ns", name+"-"+node))
					if err != nil || (decision == authorizer.DecisionAllow) != allowed {
						t.Errorf("%s %s %s-%s: %v %q %v", verb, tt.resource, name, node, decision, reason, err)
					}
				}
				if decision, _, _ := a.Authorize(t.Context(), ask(verb, "", tt.resource, "", "elsewhere", name+"-n1")); decision == authorizer.DecisionAllow && tt.resource != "persistentvolumes" {
					t.Errorf("%s %s of another namespace", verb, tt.resource)
				}
			}
		}
	}
}

// A node reads the ResourceClaims that its pods name, had made of templates or got
// for extended resources, also those that the status tells of later.
func TestDeviceClaims(t *testing.T) {
	pod := full("n1")
	pod.Generation, pod.UID = 1, "u"
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{
		{Name: "named", ResourceClaimName: ptr.To("named-n1")}, {Name: "made", ResourceClaimTemplateName: ptr.To("template")}, {Name: "none", ResourceClaimTemplateName: ptr.To("template")},
	}
	a := newAuthorizer(t, pod, full("n2"))
	allows := func(want bool, verb, sub, namespace, name string) {
		t.Helper()
		decision, reason, err := a.Authorize(t.Context(), ask(verb, "resource.k8s.io", "resourceclaims", sub, namespace, name))
		if err != nil || (decision == authorizer.DecisionAllow) != want {
			t.Errorf("%s %s/%s: %v %q %v", verb, namespace, name, decision, reason, err)
		}
	}
	allows(true, "get", "", "ns", "named-n1")
	allows(false, "get", "", "ns", "made-n1")
	pod = pod.DeepCopy()
	pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "made", ResourceClaimName: ptr.To("made-n1")}, {Name: "none"}, {Name: "other", ResourceClaimName: ptr.To("other")}}
	pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended-n1"}
	know(t, a, pod)
	for _, name := range []string{"named-n1", "made-n1", "extended-n1"} {
		allows(true, "get", "", "ns", name)
		allows(false, "get", "", "elsewhere", name)
		allows(false, "update", "", "ns", name)
		allows(false, "update", "status", "ns", name)
	}
	for _, name := range []string{"", "other", "template", "named-n2"} {
		allows(false, "get", "", "ns", name)
	}
	allows(false, "list", "", "ns", "")
	pod = pod.DeepCopy()
	pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	know(t, a, pod)
	allows(false, "get", "", "ns", "named-n1")
}

func TestNarrowed(t *testing.T) {
	mirror := full("n1")
	mirror.Name, mirror.Annotations = "mirror", map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	mirror.Spec.Volumes[0].Secret.SecretName, mirror.Spec.ServiceAccountName = "mirrored", "mirrored"
	a := newAuthorizer(t, full("n1"), full("n2"), mirror)
	selecting := func(verb, selector string) authorizer.AttributesRecord {
		r := ask(verb, "", "pods", "", "", "")
		if verb == "deletecollection" {
			r = ask(verb, "resource.k8s.io", "resourceslices", "", "", "")
		}
		s, err := fields.ParseSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		r.FieldSelectorRequirements = s.Requirements()
		return r
	}
	as := func(r authorizer.AttributesRecord, who user.Info) authorizer.AttributesRecord { r.User = who; return r }
	for _, tt := range []struct {
		name    string
		request authorizer.AttributesRecord
		allow   bool
	}{
		{"all secrets", ask("list", "", "secrets", "", "", ""), false},
		{"secrets of a namespace", ask("list", "", "secrets", "", "ns", ""), false},
		{"writes a secret of its pod", ask("update", "", "secrets", "", "ns", "volume-n1"), false},
		{"secret of a pod it made up", ask("get", "", "secrets", "", "ns", "mirrored"), false},
		{"account of a pod it made up", ask("create", "", "serviceaccounts", "token", "ns", "mirrored"), false},
		{"token of its pod's account", ask("create", "", "serviceaccounts", "token", "ns", "account-n1"), true},
		{"token of another's", ask("create", "", "serviceaccounts", "token", "ns", "account-n2"), false},
		{"all pods", selecting("list", ""), false},
		{"its pods", selecting("watch", "spec.nodeName=n1"), true},
		{"another's pods", selecting("list", "spec.nodeName=n2"), false},
		{"all but its pods", selecting("list", "spec.nodeName!=n1"), false},
		{"all resource slices", selecting("deletecollection", ""), false},
		{"its resource slices", selecting("deletecollection", "spec.nodeName=n1"), true},
		{"another's resource slices", selecting("deletecollection", "spec.nodeName=n2"), false},
		{"all but its resource slices", selecting("deletecollection", "spec.nodeName!=n1"), false},
		{"a resource slice by name", ask("delete", "resource.k8s.io", "resourceslices", "", "", "x"), false},
		{"a resource claim", ask("get", "resource.k8s.io", "resourceclaims", "", "ns", "claim-n1"), false},
		{"status of a pod, which admission looks at", ask("patch", "", "pods", "status", "ns", "pod-n2"), true},
		{"exec", ask("create", "", "pods", "exec", "ns", "pod-n1"), false},
		{"binds", ask("create", "", "pods", "binding", "ns", "pod-n1"), false},
		{"itself", ask("get", "", "nodes", "", "", "n1"), true},
		{"another", ask("get", "", "nodes", "", "", "n2"), false},
		{"all nodes", ask("list", "", "nodes", "", "", ""), false},
		{"its status", ask("patch", "", "nodes", "status", "", "n1"), true},
		{"proxy to itself", ask("get", "", "nodes", "proxy", "", "n1"), false},
		{"its lease", ask("update", "coordination.k8s.io", "leases", "", "kube-node-lease", "n1"), true},
		{"another's lease", ask("get", "coordination.k8s.io", "leases", "", "kube-node-lease", "n2"), false},
		{"the scheduler's lease", ask("update", "coordination.k8s.io", "leases", "", "kube-system", "kube-scheduler"), false},
		{"services", ask("watch", "", "services", "", "", ""), true},
		{"events", ask("create", "", "events", "", "ns", ""), true},
		{"roles", ask("get", "rbac.authorization.k8s.io", "clusterroles", "", "", "x"), false},
		{"the name without the group", as(ask("get", "", "secrets", "", "ns", "volume-n1"), &user.DefaultInfo{Name: "system:node:n1"}), false},
		{"the group without a name", as(ask("watch", "", "services", "", "", ""), &user.DefaultInfo{Name: "system:node:", Groups: []string{user.NodesGroup}}), false},
		{"metrics", authorizer.AttributesRecord{User: self, Verb: "get", Path: "/metrics"}, false},
	} {
		decision, reason, err := a.Authorize(t.Context(), tt.request)
		if err != nil || decision == authorizer.DecisionDeny || (decision == authorizer.DecisionAllow) != tt.allow {
			t.Errorf("%s: %v %q %v", tt.name, decision, reason, err)
		}
	}
}

// While the pods are read that there are, a node waits for what it may do.
func TestPodsNotRead(t *testing.T) {
	a := New(informers.NewSharedInformerFactory(fake.NewClientset(), 0).Core().V1().PersistentVolumeClaims())
	a.patience = time.Millisecond
	done := make(chan authorizer.Decision)
	request := ask("get", "", "secrets", "", "ns", "volume-n1")
	go func() {
		decision, _, _ := a.Authorize(t.Context(), request)
		done <- decision
	}()
	select {
	case got := <-done:
		t.Fatalf("%v before the pods were read", got)
	case <-time.After(20 * time.Millisecond):
	}
	know(t, a, full("n1"))
	if got := <-done; got != authorizer.DecisionAllow {
		t.Error(got)
	}
	if err := a.pods.Replace([]any{full("n1")}, "1"); err != nil {
		t.Fatal(err)
	}
	request = ask("get", "", "secrets", "", "ns", "volume-n2")
	if got, _, _ := a.Authorize(t.Context(), request); got != authorizer.DecisionNoOpinion {
		t.Error(got)
	}
}

// The node may know of its pod before the authorizer does.
func TestPodComesLater(t *testing.T) {
	a := newAuthorizer(t)
	a.patience = time.Minute
	done := make(chan authorizer.Decision)
	go func() {
		decision, _, _ := a.Authorize(t.Context(), ask("get", "", "secrets", "", "ns", "volume-n1"))
		done <- decision
	}()
	know(t, a, full("n1"))
	if got := <-done; got != authorizer.DecisionAllow {
		t.Fatal(got)
	}
}

// What is kept follows the pods: a node has no right by a pod that is gone, that is
// another one of the name, or that was not in the next list.
func TestRightsEndWithThePod(t *testing.T) {
	with := func(uid, node string, generation int64, extra string) *corev1.Pod {
		p := full(node)
		p.Name, p.UID, p.Generation = "pod", types.UID(uid), generation
		if extra != "" {
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named(extra)}}},
			}})
		}
		return p
	}
	a := newAuthorizer(t)
	steps := []struct {
		name    string
		do      func() error
		allowed []string
		refused []string
	}{
		{"added", func() error { return a.pods.Add(with("1", "n1", 1, "")) }, []string{"volume-n1"}, []string{"later", "volume-n2"}},
		{"a debug container came", func() error { return a.pods.Update(with("1", "n1", 2, "later")) }, []string{"volume-n1", "later"}, nil},
		{"status only", func() error { return a.pods.Update(with("1", "n1", 2, "later")) }, []string{"volume-n1", "later"}, nil},
		{"another pod, on another node", func() error { return a.pods.Update(with("2", "n2", 1, "")) }, nil, []string{"volume-n1", "later"}},
		{"back", func() error { return a.pods.Update(with("3", "n1", 1, "")) }, []string{"volume-n1"}, []string{"later"}},
		{"not in the next list", func() error { return a.pods.Replace([]any{full("n1")}, "2") }, []string{"volume-n1"}, []string{"later"}},
		{"deleted", func() error { return a.pods.Delete(full("n1")) }, nil, []string{"volume-n1"}},
		{"deleted again", func() error { return a.pods.Delete(full("n1")) }, nil, []string{"volume-n1"}},
	}
	for _, tt := range steps {
		if err := tt.do(); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		for want, names := range map[authorizer.Decision][]string{authorizer.DecisionAllow: tt.allowed, authorizer.DecisionNoOpinion: tt.refused} {
			for _, name := range names {
				if got, reason, err := a.Authorize(t.Context(), ask("get", "", "secrets", "", "ns", name)); got != want || err != nil {
					t.Errorf("%s: secret %s: %v %q %v", tt.name, name, got, reason, err)
				}
			}
		}
	}
	if len(a.pods.known) != 0 || len(a.pods.on) != 0 {
		t.Errorf("kept: %v %v", a.pods.known, a.pods.on)
	}
	if err := a.pods.Add(&corev1.Node{}); err == nil {
		t.Error("a node was taken for a pod")
	}
}
