package placements

import (
	"fmt"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

const (
	zoneLabel = "topology.kubernetes.io/zone"
	oldZone   = "failure-domain.beta.kubernetes.io/zone"
)

// cases is a generated cluster with the pods to place.
type cases struct {
	nodes v1.NodeList
	pods  v1.PodList
	// what some plugin reads
	services    v1.ServiceList
	controllers v1.ReplicationControllerList
	sets        appsv1.ReplicaSetList
	volumes     v1.PersistentVolumeList
	claims      v1.PersistentVolumeClaimList
}

func quantities(pairs ...any) v1.ResourceList {
	list := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[v1.ResourceName(pairs[i].(string))] = resource.MustParse(fmt.Sprint(pairs[i+1]))
	}
	return list
}

// generate makes a cluster in which every plugin of the classic set has
// something to say about some of the pods.
func generate(seed uint64, nodes, pods int) *cases {
	r := rand.New(rand.NewPCG(seed, 3))
	c := &cases{}
	chance := func(percent int) bool { return r.IntN(100) < percent }
	name := func(kind string, n int) string { return fmt.Sprintf("%s-%d", kind, r.IntN(n)) }
	for i := range nodes {
		n := v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i), UID: types.UID(fmt.Sprint("n", i)), Labels: map[string]string{
			"kubernetes.io/hostname": fmt.Sprint("node-", i), "disk": name("disk", 3), "cores": fmt.Sprint(r.IntN(16)),
		}}}
		if chance(60) {
			n.Labels[zoneLabel] = name("zone", 3)
		} else if chance(50) {
			n.Labels[oldZone] = name("zone", 3)
		}
		n.Spec.Unschedulable = chance(4)
		if chance(10) {
			n.Spec.Taints = []v1.Taint{{Key: "dedicated", Value: name("team", 2), Effect: v1.TaintEffectNoSchedule}}
		}
		n.Status.Capacity = quantities("cpu", 2+r.IntN(30), "memory", fmt.Sprint(4+r.IntN(60), "Gi"), "pods", 20+r.IntN(90), "example.com/gpu", r.IntN(3), "ephemeral-storage", "100Gi")
		n.Status.Allocatable = n.Status.Capacity
		for k := range r.IntN(6) {
			n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{fmt.Sprintf("registry/image-%d:v1", k)}, SizeBytes: r.Int64N(900 << 20)})
		}
		c.nodes.Items = append(c.nodes.Items, n)
	}
	for i := range 30 {
		pv := v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pv-", i), UID: types.UID(fmt.Sprint("pv", i))}}
		if chance(70) {
			pv.Labels = map[string]string{oldZone: name("zone", 3)}
		}
		if chance(50) {
			pv.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: fmt.Sprint("vol-", i)}
		} else {
			pv.Spec.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{PDName: fmt.Sprint("pd-", i)}
		}
		pvc := v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("claim-", i), UID: types.UID(fmt.Sprint("c", i))}}
		if chance(80) {
			pvc.Spec.VolumeName = fmt.Sprint("pv-", (i*7)%32) // some of them missing
		}
		c.volumes.Items, c.claims.Items = append(c.volumes.Items, pv), append(c.claims.Items, pvc)
	}
	for i := range 4 {
		labels := map[string]string{"app": fmt.Sprint("app-", i)}
		meta := metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("o-", i), UID: types.UID(fmt.Sprint("o", i))}
		c.services.Items = append(c.services.Items, v1.Service{ObjectMeta: meta, Spec: v1.ServiceSpec{Selector: labels}})
		labels = map[string]string{"app": fmt.Sprint("app-", i+2)}
		c.controllers.Items = append(c.controllers.Items, v1.ReplicationController{ObjectMeta: meta, Spec: v1.ReplicationControllerSpec{Selector: labels}})
		labels = map[string]string{"app": fmt.Sprint("app-", i+4)}
		c.sets.Items = append(c.sets.Items, appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}}})
	}
	for i := range pods {
		order := int32(pods - i) // the order of scheduling
		p := v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprint("p", i)), Labels: map[string]string{"app": name("app", 10)}},
			Spec: v1.PodSpec{SchedulerName: "default-scheduler", Priority: &order, Containers: []v1.Container{{
				Name: "c", Image: name("registry/image", 6) + ":v1",
				Resources: v1.ResourceRequirements{Requests: quantities("cpu", fmt.Sprint(r.IntN(8)*50, "m"), "memory", fmt.Sprint(r.IntN(8)*64, "Mi"))},
			}}},
		}
		container := &p.Spec.Containers[0]
		if chance(15) {
			container.Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: int32(8000 + r.IntN(4))}}
		}
		if chance(5) {
			container.Resources.Requests["example.com/gpu"] = resource.MustParse("1")
		}
		if chance(10) {
			container.Resources.Requests = nil
		}
		if chance(20) {
			p.Spec.NodeSelector = map[string]string{"disk": name("disk", 4)}
		}
		if chance(20) {
			p.Spec.Tolerations = []v1.Toleration{{Key: "dedicated", Operator: v1.TolerationOpEqual, Value: name("team", 2)}}
		}
		if chance(25) {
			term := func() v1.NodeSelectorTerm {
				return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "cores", Operator: []v1.NodeSelectorOperator{v1.NodeSelectorOpGt, v1.NodeSelectorOpLt}[r.IntN(2)], Values: []string{fmt.Sprint(r.IntN(16))}}}}
			}
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 1, Preference: term()}, {Weight: 5, Preference: term()}}}}
			if chance(30) {
				p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term(), term()}}
			}
		}
		if chance(4) {
			p.Annotations = map[string]string{"scheduler.alpha.kubernetes.io/affinity": `{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"disk","operator":"NotIn","values":["disk-1"]}]}]}}}`}
		}
		volume := func(s v1.VolumeSource) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", len(p.Spec.Volumes)), VolumeSource: s})
		}
		if chance(10) {
			volume(v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name("claim", 32)}})
		}
		if chance(6) {
			volume(v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: name("pd", 20), ReadOnly: chance(50)}})
		}
		if chance(6) {
			volume(v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: name("vol", 200)}})
		}
		if chance(3) {
			volume(v1.VolumeSource{RBD: &v1.RBDVolumeSource{CephMonitors: []string{name("m", 3)}, RBDPool: "p", RBDImage: name("i", 4)}})
		}
		c.pods.Items = append(c.pods.Items, p)
	}
	return c
}

func (c *cases) objects() map[string]cache.ListerWatcher {
	return map[string]cache.ListerWatcher{
		"Service": fixed{&c.services}, "ReplicationController": fixed{&c.controllers}, "ReplicaSet": fixed{&c.sets},
		"PersistentVolume": fixed{&c.volumes}, "PersistentVolumeClaim": fixed{&c.claims},
	}
}
