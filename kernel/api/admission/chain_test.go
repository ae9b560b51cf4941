package admission

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

func ptr[T any](v T) *T { return &v }

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "ns", Name: name} }

func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

// cluster is what the chain looks things up in.
func cluster() []runtime.Object {
	policy := corev1.PreemptNever
	return []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ending"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strict", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "limited"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "counted"}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "free", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "selected", Annotations: map[string]string{"scheduler.alpha.kubernetes.io/node-selector": "zone=a"}}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "free", Name: "default"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "selected", Name: "default"}},
		&corev1.ServiceAccount{ObjectMeta: named("default"), ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}},
		&corev1.ServiceAccount{ObjectMeta: named("quiet"), AutomountServiceAccountToken: ptr(false)},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "strict", Name: "default"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "limited", Name: "default"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "counted", Name: "default"}},
		&corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "limited", Name: "l"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer, DefaultRequest: quantities("cpu", "100m"), Default: quantities("cpu", "200m", "memory", "64Mi"), Max: quantities("cpu", "1"),
		}}}},
		&corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: "counted", Name: "q", ResourceVersion: "1"},
			Spec:       corev1.ResourceQuotaSpec{Hard: quantities("pods", "1", "requests.cpu", "1")},
			Status:     corev1.ResourceQuotaStatus{Hard: quantities("pods", "1", "requests.cpu", "1"), Used: quantities("pods", "0", "requests.cpu", "0")},
		},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000000, PreemptionPolicy: &policy},
		&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "sandboxed"}, Handler: "h",
			Overhead:   &nodev1.Overhead{PodFixed: quantities("cpu", "10m")},
			Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"kind": "big"}, Tolerations: []corev1.Toleration{{Key: "t", Operator: corev1.TolerationOpExists}}}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "here", UID: "u"}, Spec: corev1.PodSpec{NodeName: "n1", ServiceAccountName: "default", Volumes: []corev1.Volume{
			{Name: "t", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}, {ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "vault", Audience: "vault"}},
			}}}},
		}}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "there", UID: "u"}, Spec: corev1.PodSpec{NodeName: "n2", ServiceAccountName: "default"}},
	}
}

type chain struct {
	admission.Interface
	client *fake.Clientset
}

func newTestChain(t *testing.T) chain {
	t.Helper()
	return newTestChainOf(t, Deps{})
}

// newTestChainOf fills in what every chain needs.
func newTestChainOf(t *testing.T, deps Deps) chain {
	t.Helper()
	client := fake.NewClientset(cluster()...)
	client.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
		review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).DeepCopy()
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = asked.Verb == "request-serviceaccounts-token-audience" && asked.Resource == "granted" && asked.Name == "default" && review.Spec.User == "system:node:n1"
		return true, review, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	deps.Client, deps.Informers, deps.Stop = client, factory, t.Context().Done()
	handler, err := NewChain(deps)
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	for kind, ok := range factory.WaitForCacheSync(t.Context().Done()) {
		if !ok {
			t.Fatal(kind)
		}
	}
	return chain{handler, client}
}

var admin = &user.DefaultInfo{Name: "admin", Groups: []string{"system:masters"}}

// run admits and validates as the server does.
func (c chain) run(ctx context.Context, op admission.Operation, who user.Info, resource, sub string, obj, old runtime.Object) error {
	of := obj
	if of == nil {
		of = old
	}
	kinds, _, err := scheme.Scheme.ObjectKinds(of)
	if err != nil {
		return err
	}
	accessor, err := meta.Accessor(of)
	if err != nil {
		return err
	}
	group := kinds[0].Group
	if resource == "serviceaccounts" {
		group = "" // its token subresource has a body of another group
	}
	var options runtime.Object = &metav1.CreateOptions{}
	if op == admission.Update {
		options = &metav1.UpdateOptions{}
	}
	a := admission.NewAttributesRecord(obj, old, kinds[0], accessor.GetNamespace(), accessor.GetName(),
		schema.GroupVersionResource{Group: group, Version: kinds[0].Version, Resource: resource}, sub, op, options, false, who)
	if mutate, ok := c.Interface.(admission.MutationInterface); ok && mutate.Handles(op) {
		if err := mutate.Admit(ctx, a, nil); err != nil {
			return err
		}
	}
	if validate, ok := c.Interface.(admission.ValidationInterface); ok && validate.Handles(op) {
		return validate.Validate(ctx, a, nil)
	}
	return nil
}

func pod(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: named("p"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if change != nil {
		change(p)
	}
	return p
}

// 000 API-20, 001 admission: priority, runtime class, service account.
func TestPodCreate(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(*corev1.Pod)
		check   func(t *testing.T, p *corev1.Pod)
		wantErr string
	}{
		{name: "token volume", check: func(t *testing.T, p *corev1.Pod) {
			if p.Spec.ServiceAccountName != "default" || p.Spec.DeprecatedServiceAccount != "default" || p.Spec.ImagePullSecrets[0].Name != "registry" {
				t.Errorf("account %+v", p.Spec)
			}
			if len(p.Spec.Volumes) != 1 || !strings.HasPrefix(p.Spec.Volumes[0].Name, "kube-api-access-") || len(p.Spec.Volumes[0].Name) != len("kube-api-access-xxxxx") {
				t.Fatalf("volumes %+v", p.Spec.Volumes)
			}
			got, err := json.Marshal(p.Spec.Volumes[0].Projected)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"name":"kube-root-ca.crt","items":[{"key":"ca.crt","path":"ca.crt"}]}},{"downwardAPI":{"items":[{"path":"namespace","fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}]}}],"defaultMode":420}`
			if string(got) != want {
				t.Errorf("volume %s", got)
			}
			mount := p.Spec.Containers[0].VolumeMounts[0]
			if mount.MountPath != "/var/run/secrets/kubernetes.io/serviceaccount" || !mount.ReadOnly || mount.Name != p.Spec.Volumes[0].Name {
				t.Errorf("mount %+v", mount)
			}
		}},
		{name: "account says no token", change: func(p *corev1.Pod) { p.Spec.ServiceAccountName = "quiet" }, check: func(t *testing.T, p *corev1.Pod) {
			if len(p.Spec.Volumes) != 0 {
				t.Error("token mounted")
			}
		}},
		{name: "pod says token after all", change: func(p *corev1.Pod) {
			p.Spec.ServiceAccountName, p.Spec.AutomountServiceAccountToken = "quiet", ptr(true)
		}, check: func(t *testing.T, p *corev1.Pod) {
			if len(p.Spec.Volumes) != 1 {
				t.Error("no token mounted")
			}
		}},
		{name: "unknown account", change: func(p *corev1.Pod) { p.Spec.ServiceAccountName = "nobody" },
			wantErr: `pods "p" is forbidden: error looking up service account ns/nobody: serviceaccount "nobody" not found`},
		{name: "no class", check: func(t *testing.T, p *corev1.Pod) {
			if *p.Spec.Priority != 0 || *p.Spec.PreemptionPolicy != corev1.PreemptLowerPriority {
				t.Errorf("priority %d %s", *p.Spec.Priority, *p.Spec.PreemptionPolicy)
			}
		}},
		{name: "class", change: func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" }, check: func(t *testing.T, p *corev1.Pod) {
			if *p.Spec.Priority != 1000000 || *p.Spec.PreemptionPolicy != corev1.PreemptNever {
				t.Errorf("priority %d %s", *p.Spec.Priority, *p.Spec.PreemptionPolicy)
			}
		}},
		{name: "unknown class", change: func(p *corev1.Pod) { p.Spec.PriorityClassName = "x" }, wantErr: "no PriorityClass with name x was found"},
		{name: "own priority", change: func(p *corev1.Pod) { p.Spec.Priority = ptr(int32(5)) },
			wantErr: "the integer value of priority (5) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name"},
		{name: "default tolerations", check: func(t *testing.T, p *corev1.Pod) {
			if len(p.Spec.Tolerations) != 2 || *p.Spec.Tolerations[0].TolerationSeconds != 300 || p.Spec.Tolerations[1].Key != corev1.TaintNodeUnreachable {
				t.Errorf("%+v", p.Spec.Tolerations)
			}
		}},
		{name: "tolerates everything", change: func(p *corev1.Pod) {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}, check: func(t *testing.T, p *corev1.Pod) {
			if len(p.Spec.Tolerations) != 1 {
				t.Errorf("%+v", p.Spec.Tolerations)
			}
		}},
		{name: "runtime class", change: func(p *corev1.Pod) {
			p.Spec.RuntimeClassName, p.Spec.NodeSelector = ptr("sandboxed"), map[string]string{"own": "x"}
		}, check: func(t *testing.T, p *corev1.Pod) {
			if p.Spec.Overhead.Cpu().String() != "10m" || len(p.Spec.NodeSelector) != 2 || p.Spec.NodeSelector["kind"] != "big" || len(p.Spec.Tolerations) != 3 {
				t.Errorf("%+v", p.Spec)
			}
		}},
		{name: "runtime class conflict", change: func(p *corev1.Pod) {
			p.Spec.RuntimeClassName, p.Spec.NodeSelector = ptr("sandboxed"), map[string]string{"kind": "small"}
		}, wantErr: "conflict: runtimeClass.scheduling.nodeSelector[kind] = big; pod.spec.nodeSelector[kind] = small"},
		{name: "unknown runtime class", change: func(p *corev1.Pod) { p.Spec.RuntimeClassName = ptr("x") }, wantErr: `pod rejected: RuntimeClass "x" not found`},
		{name: "overhead out of the blue", change: func(p *corev1.Pod) { p.Spec.Overhead = quantities("cpu", "1") },
			wantErr: "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"},
		{name: "namespace missing", change: func(p *corev1.Pod) { p.Namespace = "absent" }, wantErr: `namespaces "absent" not found`},
		{name: "namespace ends", change: func(p *corev1.Pod) { p.Namespace = "ending" },
			wantErr: "unable to create new content in namespace ending because it is being terminated"},
		{name: "strict namespace", change: func(p *corev1.Pod) { p.Namespace = "strict" }, wantErr: `violates PodSecurity "restricted:latest"`},
		{name: "default limits", change: func(p *corev1.Pod) { p.Namespace = "limited" }, check: func(t *testing.T, p *corev1.Pod) {
			c := p.Spec.Containers[0].Resources
			if c.Requests.Cpu().String() != "100m" || c.Limits.Cpu().String() != "200m" || c.Limits.Memory().String() != "64Mi" {
				t.Errorf("%+v", c)
			}
			if got := p.Annotations["kubernetes.io/limit-ranger"]; got != "LimitRanger plugin set: cpu request for container c; cpu, memory limit for container c" {
				t.Errorf("annotation %q", got)
			}
		}},
		{name: "over the limit", change: func(p *corev1.Pod) {
			p.Namespace, p.Spec.Containers[0].Resources.Limits = "limited", quantities("cpu", "2")
		}, wantErr: "maximum cpu usage per Container is 1, but limit is 2"},
		{name: "quota wants requests", change: func(p *corev1.Pod) { p.Namespace = "counted" }, wantErr: "failed quota: q: must specify requests.cpu for: c"},
		{name: "quota exceeded", change: func(p *corev1.Pod) {
			p.Namespace, p.Spec.Containers[0].Resources.Requests = "counted", quantities("cpu", "2")
		}, wantErr: "exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=0, limited: requests.cpu=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := pod(tt.change)
			err := newTestChain(t).run(t.Context(), admission.Create, admin, "pods", "", p, nil)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("error %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tt.check(t, p)
		})
	}
}

// RQC-1: what is admitted is charged at once, so that the next one is refused.
func TestQuotaCharges(t *testing.T) {
	c := newTestChain(t)
	small := func(name string) *corev1.Pod {
		return pod(func(p *corev1.Pod) {
			p.Namespace, p.Name = "counted", name
			p.Spec.Containers[0].Resources.Requests = quantities("cpu", "100m")
		})
	}
	if err := c.run(t.Context(), admission.Create, admin, "pods", "", small("a"), nil); err != nil {
		t.Fatal(err)
	}
	q, err := c.client.CoreV1().ResourceQuotas("counted").Get(t.Context(), "q", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if q.Status.Used.Pods().String() != "1" {
		t.Fatalf("used %v", q.Status.Used)
	}
	// The fake client gives no resource versions, by which the plugin would
	// know its own write from the informer's older copy: wait for the informer.
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		err = c.run(t.Context(), admission.Create, admin, "pods", "", small("b"), nil)
		if err != nil || time.Now().After(deadline) {
			break
		}
	}
	if err == nil || !strings.Contains(err.Error(), "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1") {
		t.Fatal(err)
	}
}

func TestNodeTaint(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	if err := newTestChain(t).run(t.Context(), admission.Create, admin, "nodes", "", node, nil); err != nil {
		t.Fatal(err)
	}
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != corev1.TaintNodeNotReady || node.Spec.Taints[0].Effect != corev1.TaintEffectNoSchedule {
		t.Errorf("taints %v", node.Spec.Taints)
	}
}

func TestSecondDefaultPriorityClass(t *testing.T) {
	client := fake.NewClientset(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "one"}, GlobalDefault: true})
	factory := informers.NewSharedInformerFactory(client, 0)
	handler, err := NewChain(Deps{Client: client, Informers: factory, Stop: t.Context().Done()})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())
	second := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "two"}, GlobalDefault: true}
	err = chain{handler, client}.run(t.Context(), admission.Create, admin, "priorityclasses", "", second, nil)
	if err == nil || !strings.Contains(err.Error(), "PriorityClass one is already marked as default. Only one default can exist") {
		t.Fatal(err)
	}
}

func TestNodeRestriction(t *testing.T) {
	self := &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}}
	node := func(name string, change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if change != nil {
			change(n)
		}
		return n
	}
	placed := func(on string, label string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Labels: map[string]string{"l": label}}, Spec: corev1.PodSpec{NodeName: on}}
	}
	devices := func(on string) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{NodeName: &on}}
	}
	tokenFor := func(name string, audiences ...string) *authenticationv1.TokenRequest {
		return &authenticationv1.TokenRequest{ObjectMeta: named("default"), Spec: authenticationv1.TokenRequestSpec{
			Audiences:      audiences,
			BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: name, UID: "u"},
		}}
	}
	for _, tt := range []struct {
		name          string
		op            admission.Operation
		resource, sub string
		obj, old      runtime.Object
		who           user.Info
		wantErr       string
	}{
		{name: "registers itself", op: admission.Create, resource: "nodes", obj: node("n1", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelHostname: "n1", "own": "x"} })},
		{name: "registers another", op: admission.Create, resource: "nodes", obj: node("n2", nil), wantErr: `node "n1" is not allowed to modify node "n2"`},
		{name: "restricted label", op: admission.Create, resource: "nodes", obj: node("n1", func(n *corev1.Node) { n.Labels = map[string]string{"node-restriction.kubernetes.io/x": "y"} }), wantErr: "is not allowed to set the following labels: node-restriction.kubernetes.io/x"},
		{name: "role label", op: admission.Update, resource: "nodes", obj: node("n1", func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/x": ""} }), old: node("n1", nil), wantErr: "is not allowed to modify labels: node-role.kubernetes.io/x"},
		{name: "taints", op: admission.Update, resource: "nodes", obj: node("n1", nil), old: node("n1", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k"}} }), wantErr: "is not allowed to modify taints"},
		{name: "own status", op: admission.Update, resource: "nodes", sub: "status", obj: node("n1", nil), old: node("n1", nil)},
		{name: "own pod's status", op: admission.Update, resource: "pods", sub: "status", obj: placed("n1", "a"), old: placed("n1", "a")},
		{name: "other pod's status", op: admission.Update, resource: "pods", sub: "status", obj: placed("n2", "a"), old: placed("n2", "a"), wantErr: "can only update pod status for pods with spec.nodeName set to itself"},
		{name: "labels by status", op: admission.Update, resource: "pods", sub: "status", obj: placed("n1", "b"), old: placed("n1", "a"), wantErr: "cannot update labels through pod status"},
		{name: "makes a pod", op: admission.Create, resource: "pods", obj: placed("n1", "a"), wantErr: "can only create mirror pods"},
		{name: "token of its pod", op: admission.Create, resource: "serviceaccounts", sub: "token", obj: tokenFor("here")},
		{name: "token of another's pod", op: admission.Create, resource: "serviceaccounts", sub: "token", obj: tokenFor("there"), wantErr: "node requested token bound to a pod scheduled on a different node"},
		{name: "token for whom its pod says", op: admission.Create, resource: "serviceaccounts", sub: "token", obj: tokenFor("here", "vault")},
		{name: "token for another", op: admission.Create, resource: "serviceaccounts", sub: "token", obj: tokenFor("here", "bank"), wantErr: `audience "bank" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience`},
		{name: "token for whom it may ask", op: admission.Create, resource: "serviceaccounts", sub: "token", obj: tokenFor("here", "granted")},
		{name: "token for two", op: admission.Create, resource: "serviceaccounts", sub: "token", obj: tokenFor("here", "", "vault"), wantErr: "node may only request 0 or 1 audiences"},
		{name: "own lease", op: admission.Update, resource: "leases", obj: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "n1"}}},
		{name: "another's lease", op: admission.Update, resource: "leases", obj: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: "n2"}}, wantErr: "can only access node lease with the same name as the requesting node"},
		{name: "lease elsewhere", op: admission.Update, resource: "leases", obj: &coordinationv1.Lease{ObjectMeta: named("n1")}, wantErr: `can only access leases in the "kube-node-lease" system namespace`},
		{name: "own devices", op: admission.Create, resource: "resourceslices", obj: devices("n1")},
		{name: "another's devices", op: admission.Create, resource: "resourceslices", obj: devices("n2"), wantErr: "can only create ResourceSlice with the same NodeName as the requesting node"},
		{name: "devices of all nodes", op: admission.Create, resource: "resourceslices", obj: &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, wantErr: "can only create ResourceSlice with the same NodeName"},
		{name: "deletes own devices", op: admission.Delete, resource: "resourceslices", old: devices("n1")},
		{name: "deletes another's devices", op: admission.Delete, resource: "resourceslices", old: devices("n2"), wantErr: "can only delete ResourceSlice with the same NodeName as the requesting node"},
		{name: "name without the group", op: admission.Update, resource: "leases", obj: &coordinationv1.Lease{ObjectMeta: named("n2")}, who: &user.DefaultInfo{Name: "system:node:n1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.who == nil {
				tt.who = self
			}
			old := tt.old
			if old == nil && tt.op == admission.Update {
				old = tt.obj
			}
			err := newTestChain(t).run(t.Context(), tt.op, tt.who, tt.resource, tt.sub, tt.obj, old)
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Fatalf("error %v, want %q", err, tt.wantErr)
			}
		})
	}
}
