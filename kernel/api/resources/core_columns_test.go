package resources

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestCells(t *testing.T) {
	now := metav1.Now()
	meta := metav1.ObjectMeta{Name: "x"}
	for _, tc := range []struct {
		name string
		got  []any
		want string
	}{
		{"node", nodeCells(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "x", Labels: map[string]string{"node-role.kubernetes.io/b": "", "kubernetes.io/role": "a"}},
			Spec:       corev1.NodeSpec{Unschedulable: true},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
				Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
				NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1", KernelVersion: "6.1", Architecture: "amd64", OSImage: "Debian"},
			},
		}), "[x Ready,SchedulingDisabled a,b <unknown> v1 10.0.0.1 <none> Debian 6.1 (amd64) <unknown>]"},
		{"unknown node", nodeCells(&corev1.Node{ObjectMeta: meta}), "[x Unknown <none> <unknown>  <none> <none> <unknown> <unknown> <unknown>]"},
		{"service", serviceCells(&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIPs: []string{"10.96.0.1"}, Selector: map[string]string{"a": "b"},
			Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080, Protocol: "TCP"}, {Port: 53, Protocol: "UDP"}},
		}}), "[x NodePort 10.96.0.1 <none> 80:30080/TCP,53/UDP <unknown> a=b]"},
		{"pending balancer", serviceCells(&corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}),
			"[x LoadBalancer <none> <pending> <none> <unknown> <none>]"},
		{"endpoints", endpointsCells(&corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "1.1.1.1"}, {IP: "2.2.2.2"}, {IP: "3.3.3.3"}, {IP: "4.4.4.4"}}, Ports: []corev1.EndpointPort{{Port: 80}},
		}}}), "[x 1.1.1.1:80,2.2.2.2:80,3.3.3.3:80 + 1 more... <unknown>]"},
		{"slice", endpointSliceCells(&discoveryv1.EndpointSlice{ObjectMeta: meta, AddressType: "IPv4",
			Ports: []discoveryv1.EndpointPort{{Port: ptr.To[int32](80)}, {}}}), "[x IPv4 80,* <unset> <unknown>]"},
		{"event", eventCells(&corev1.Event{ObjectMeta: meta, Type: "Normal", Reason: "Pulled", Message: "done\n",
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "web"}, ReportingController: "kubelet", ReportingInstance: "n1"}),
			"[<unknown> Normal Pulled pod/web  kubelet, n1 done <unknown> 1 x]"},
		{"volume", persistentVolumeCells(&corev1.PersistentVolume{ObjectMeta: meta, Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadWriteOnce},
			ClaimRef:    &corev1.ObjectReference{Namespace: "n", Name: "c"}, PersistentVolumeReclaimPolicy: "Retain", StorageClassName: "fast",
		}, Status: corev1.PersistentVolumeStatus{Phase: "Bound"}}), "[x 1Gi RWO,RWX Retain Bound n/c fast <unset>  <unknown> <unset>]"},
		{"claim going", persistentVolumeClaimCells(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "x", DeletionTimestamp: &now}}),
			"[x Terminating     <unset> <unknown> <unset>]"},
	} {
		if got := fmt.Sprint(tc.got); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", tc.name, got, tc.want)
		}
	}
}

func TestNodeUpdateWords(t *testing.T) {
	old := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "1"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.0.0.0/24"}, ProviderID: "a"}}
	n := old.DeepCopy()
	n.Spec.PodCIDRs, n.Spec.ProviderID = []string{"10.0.1.0/24"}, "b"
	n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: "NoSchedule"}, {Key: "k", Effect: "NoSchedule"}}
	got := validateNodeUpdate(n, old).ToAggregate().Error()
	want := `[spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid, ` +
		`spec.providerID: Forbidden: node updates may not change providerID except from "" to valid, ` +
		`metadata.taints[1]: Duplicate value: {"key":"k","effect":"NoSchedule"}: taints must be unique by key and effect pair]`
	if got != want {
		t.Errorf(" got %s\nwant %s", got, want)
	}
}

func TestClaimUpdate(t *testing.T) {
	claim := func(size string) *corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n", ResourceVersion: "1"}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		}}
		setPersistentVolumeClaimDefaults(c)
		return c
	}
	bound := claim("1Gi")
	bound.Spec.VolumeName = "v"
	if errs := validateClaimUpdate(bound, claim("1Gi")); len(errs) > 0 {
		t.Errorf("binding refused: %v", errs)
	}
	if errs := validateClaimUpdate(claim("2Gi"), claim("1Gi")); len(errs) != 1 || errs[0].Field != "spec" {
		t.Errorf("growth while pending: %v", errs)
	}
	old, grown := bound.DeepCopy(), claim("2Gi")
	old.Status.Phase, grown.Status.Phase, grown.Spec.VolumeName = corev1.ClaimBound, corev1.ClaimBound, "v"
	if errs := validateClaimUpdate(grown, old); len(errs) > 0 {
		t.Errorf("growth refused: %v", errs)
	}
}
