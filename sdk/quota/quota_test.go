package quota

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/tools/cache"
)

func ptr[T any](v T) *T { return &v }

func quantities(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func evaluatorOf(t *testing.T, group, resource string) quota.Evaluator {
	t.Helper()
	e := generic.NewRegistry(Evaluators(nil, nil)).Get(schema.GroupResource{Group: group, Resource: resource})
	if e == nil {
		t.Fatalf("no evaluator for %s", resource)
	}
	return e
}

func podWith(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Requests: quantities("cpu", "1", "memory", "1Gi"), Limits: quantities("cpu", "2"),
	}}}}}
	if change != nil {
		change(p)
	}
	return p
}

// RQC-3: pods, services, replication controllers, claims, secrets, ConfigMaps,
// cpu, memory and quotas themselves are tracked.
func TestUsage(t *testing.T) {
	now := time.Now()
	full := quantities("count/pods", "1", "pods", "1", "cpu", "1", "requests.cpu", "1", "limits.cpu", "2", "memory", "1Gi", "requests.memory", "1Gi")
	ended := quantities("count/pods", "1")
	for _, tt := range []struct {
		name, resource string
		obj            runtime.Object
		want           corev1.ResourceList
	}{
		{"pod", "pods", podWith(nil), full},
		{"succeeded", "pods", podWith(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), ended},
		{"terminating", "pods", podWith(func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr(metav1.NewTime(now)), ptr(int64(300))
		}), full},
		{"stuck", "pods", podWith(func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr(metav1.NewTime(now.Add(-time.Hour))), ptr(int64(30))
		}), ended},
		{"init container larger", "pods", podWith(func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: corev1.ResourceRequirements{Requests: quantities("cpu", "3")}}}
		}), quota.Add(quota.Subtract(full, quantities("cpu", "1", "requests.cpu", "1")), quantities("cpu", "3", "requests.cpu", "3"))},
		{"extended and huge pages", "pods", podWith(func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: quantities("example.com/gpu", "2", "hugepages-2Mi", "4Mi")}
		}), quantities("count/pods", "1", "pods", "1", "requests.example.com/gpu", "2", "hugepages-2Mi", "4Mi", "requests.hugepages-2Mi", "4Mi")},
		{"cluster ip", "services", &corev1.Service{Spec: corev1.ServiceSpec{Ports: make([]corev1.ServicePort, 2)}},
			quantities("count/services", "1", "services", "1", "services.nodeports", "0", "services.loadbalancers", "0")},
		{"node ports", "services", &corev1.Service{Spec: corev1.ServiceSpec{Type: "NodePort", Ports: make([]corev1.ServicePort, 2)}},
			quantities("count/services", "1", "services", "1", "services.nodeports", "2", "services.loadbalancers", "0")},
		{"balancer without node ports", "services", &corev1.Service{Spec: corev1.ServiceSpec{Type: "LoadBalancer", AllocateLoadBalancerNodePorts: ptr(false), Ports: []corev1.ServicePort{{}, {NodePort: 30000}}}},
			quantities("count/services", "1", "services", "1", "services.nodeports", "1", "services.loadbalancers", "1")},
		{"claim", "persistentvolumeclaims", &corev1.PersistentVolumeClaim{
			Spec:   corev1.PersistentVolumeClaimSpec{StorageClassName: ptr("gold"), Resources: corev1.VolumeResourceRequirements{Requests: quantities("storage", "1Gi")}},
			Status: corev1.PersistentVolumeClaimStatus{AllocatedResources: quantities("storage", "2Gi")},
		}, quantities("count/persistentvolumeclaims", "1", "persistentvolumeclaims", "1", "gold.storageclass.storage.k8s.io/persistentvolumeclaims", "1",
			"requests.storage", "2Gi", "gold.storageclass.storage.k8s.io/requests.storage", "2Gi")},
		{"secret", "secrets", &corev1.Secret{}, quantities("count/secrets", "1", "secrets", "1")},
		{"config map", "configmaps", &corev1.ConfigMap{}, quantities("count/configmaps", "1", "configmaps", "1")},
		{"quota", "resourcequotas", &corev1.ResourceQuota{}, quantities("count/resourcequotas", "1", "resourcequotas", "1")},
		{"replication controller", "replicationcontrollers", &corev1.ReplicationController{}, quantities("count/replicationcontrollers", "1", "replicationcontrollers", "1")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := evaluatorOf(t, "", tt.resource).Usage(tt.obj)
			if err != nil {
				t.Fatal(err)
			}
			if !quota.Equals(got, tt.want) {
				t.Errorf("got  %v\nwant %v", got, tt.want)
			}
		})
	}
	if _, err := evaluatorOf(t, "", "pods").Usage(&corev1.Secret{}); err == nil {
		t.Error("a secret was charged as a pod")
	}
}

func TestScopes(t *testing.T) {
	best := podWith(func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} })
	deadline := podWith(func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr(int64(1)) })
	high := podWith(func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" })
	cross := podWith(func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{Namespaces: []string{"x"}}}},
		}}
	})
	class := func(op corev1.ScopeSelectorOperator, values ...string) corev1.ScopedResourceSelectorRequirement {
		return corev1.ScopedResourceSelectorRequirement{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: op, Values: values}
	}
	is := func(name corev1.ResourceQuotaScope) corev1.ScopedResourceSelectorRequirement {
		return corev1.ScopedResourceSelectorRequirement{ScopeName: name, Operator: corev1.ScopeSelectorOpExists}
	}
	for _, tt := range []struct {
		name  string
		pod   *corev1.Pod
		scope corev1.ScopedResourceSelectorRequirement
		want  bool
	}{
		{"best effort", best, is(corev1.ResourceQuotaScopeBestEffort), true},
		{"not best effort", podWith(nil), is(corev1.ResourceQuotaScopeBestEffort), false},
		{"burstable", podWith(nil), is(corev1.ResourceQuotaScopeNotBestEffort), true},
		{"terminating", deadline, is(corev1.ResourceQuotaScopeTerminating), true},
		{"not terminating", podWith(nil), is(corev1.ResourceQuotaScopeNotTerminating), true},
		{"class in", high, class(corev1.ScopeSelectorOpIn, "high", "low"), true},
		{"class not in", high, class(corev1.ScopeSelectorOpNotIn, "high"), false},
		{"any class", high, class(corev1.ScopeSelectorOpExists), true},
		{"no class", podWith(nil), class(corev1.ScopeSelectorOpExists), false},
		{"absent class", podWith(nil), class(corev1.ScopeSelectorOpDoesNotExist), true},
		{"crosses namespaces", cross, is(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), true},
		{"stays", podWith(nil), is(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := evaluatorOf(t, "", "pods").MatchingScopes(tt.pod, []corev1.ScopedResourceSelectorRequirement{tt.scope})
			if err != nil || (len(got) == 1) != tt.want {
				t.Errorf("matched %v, error %v", got, err)
			}
		})
	}
}

func TestConstraints(t *testing.T) {
	e := evaluatorOf(t, "", "pods")
	p := podWith(func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "a"}} })
	err := e.Constraints([]corev1.ResourceName{"pods", "requests.cpu", "limits.memory", "requests.example.com/gpu"}, p)
	if err == nil || err.Error() != "must specify limits.memory for: a,c; requests.cpu for: a" {
		t.Errorf("error %v", err)
	}
	if err := e.Constraints([]corev1.ResourceName{"pods"}, p); err != nil {
		t.Error(err)
	}
}

func TestMatchingResources(t *testing.T) {
	names := []corev1.ResourceName{
		"pods", "cpu", "services", "requests.example.com/gpu", "limits.example.com/gpu", "requests.hugepages-2Mi", "hugepages-2Mi",
		"requests.storage", "gold.storageclass.storage.k8s.io/requests.storage", "count/pods",
	}
	for resource, want := range map[string]string{
		"pods":                   "count/pods cpu hugepages-2Mi pods requests.example.com/gpu requests.hugepages-2Mi",
		"persistentvolumeclaims": "gold.storageclass.storage.k8s.io/requests.storage requests.storage",
		"services":               "services",
	} {
		got := quota.ToSet(evaluatorOf(t, "", resource).MatchingResources(names)).List()
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v", resource, got)
		}
	}
}

// RQC-12: usage is the sum over the objects that are listed.
func TestUsageStats(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, p := range []*corev1.Pod{
		podWith(func(p *corev1.Pod) { p.Namespace, p.Name = "ns", "a" }),
		podWith(func(p *corev1.Pod) { p.Namespace, p.Name = "ns", "b"; p.Status.Phase = corev1.PodFailed }),
		podWith(func(p *corev1.Pod) { p.Namespace, p.Name = "elsewhere", "c" }),
	} {
		if err := indexer.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	list := func(gvr schema.GroupVersionResource) (cache.GenericLister, error) {
		return cache.NewGenericLister(indexer, gvr.GroupResource()), nil
	}
	e := generic.NewRegistry(Evaluators(list, nil)).Get(corev1.Resource("pods"))
	got, err := e.UsageStats(quota.UsageStatsOptions{Namespace: "ns", Resources: []corev1.ResourceName{"pods", "count/pods", "requests.cpu"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := quantities("pods", "1", "count/pods", "2", "requests.cpu", "1"); !quota.Equals(quota.Mask(got.Used, quota.ResourceNames(want)), want) {
		t.Errorf("used %v", got.Used)
	}
}
