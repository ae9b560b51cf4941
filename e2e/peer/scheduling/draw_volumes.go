package main

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Families about volumes. Claims are all of namespace blue, and so are the pods
// that ask for them.

func (d *draw) mount(p *v1.Pod, s v1.VolumeSource) {
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", len(p.Spec.Volumes)), VolumeSource: s})
}

func (d *draw) mountClaim(p *v1.Pod, name string) {
	p.Namespace = "blue"
	d.mount(p, v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name, ReadOnly: d.chance(10)}})
}

// disk draws a volume that VolumeRestrictions looks at.
func (d *draw) disk() v1.VolumeSource {
	n := d.IntN(4)
	switch d.IntN(4) {
	case 0:
		return v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: fmt.Sprint("pd-", n), ReadOnly: d.chance(50)}}
	case 1:
		return v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: fmt.Sprint("vol-", n), ReadOnly: d.chance(50)}}
	case 2:
		return v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{TargetPortal: pick(d, "10.0.0.1", "10.0.0.2"), IQN: fmt.Sprint("iqn.2026-01.example:", n), Lun: int32(d.IntN(2)), ReadOnly: d.chance(50)}}
	}
	return v1.VolumeSource{RBD: &v1.RBDVolumeSource{CephMonitors: some(d, 2, "m0", "m1", "m2"), RBDPool: pick(d, "rbd", "fast"), RBDImage: fmt.Sprint("image-", n), ReadOnly: d.chance(50)}}
}

func restrictions(d *draw) {
	d.nodes(4, 10)
	for i := range 4 {
		mode := pick(d, v1.ReadWriteOncePod, v1.ReadWriteOncePod, v1.ReadWriteOnce)
		d.claim(fmt.Sprint("claim-", i), fmt.Sprint("pv-", i), "", mode)
		d.volume(fmt.Sprint("pv-", i), fmt.Sprint("claim-", i), "", mode, nil)
	}
	used := map[int]bool{}
	some := func(p *v1.Pod) {
		for range d.IntN(3) {
			d.mount(p, d.disk())
		}
	}
	d.occupy(2, func(p *v1.Pod) {
		some(p)
		if i := d.IntN(5); d.chance(25) && !used[i] {
			used[i] = true
			d.mountClaim(p, fmt.Sprint("claim-", i))
		}
	})
	d.ask(func(p *v1.Pod) {
		some(p)
		p.Spec.Priority = new(int32)
		*p.Spec.Priority = int32(d.IntN(3))
		if d.chance(50) {
			d.mountClaim(p, fmt.Sprint("claim-", d.IntN(5))) // the last is not there
		}
	})
}

// claim adds a claim; volume and class may be empty.
func (d *draw) claim(name, volume, class string, mode v1.PersistentVolumeAccessMode) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "blue", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
		Spec: v1.PersistentVolumeClaimSpec{
			VolumeName: volume, StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{mode},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: quantity("%dGi", 1+d.IntN(10))}},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
	if volume != "" {
		c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
		c.Status.Phase = v1.ClaimBound
	}
	d.add(c)
	return c
}

// volume adds a persistent volume that is some driver's; claim may be empty.
func (d *draw) volume(name, claim, class string, mode v1.PersistentVolumeAccessMode, affinity *v1.VolumeNodeAffinity) *v1.PersistentVolume {
	v := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
		Spec: v1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []v1.PersistentVolumeAccessMode{mode}, NodeAffinity: affinity,
			Capacity:               v1.ResourceList{v1.ResourceStorage: quantity("%dGi", 1+d.IntN(20))},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: pick(d, "one.example.com", "two.example.com"), VolumeHandle: "handle-" + name}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
	if claim != "" {
		v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "blue", Name: claim, UID: types.UID("uid-" + claim)}
		v.Status.Phase = v1.VolumeBound
	}
	d.add(v)
	return v
}

func (d *draw) class(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-class-" + name)}, Provisioner: provisioner, VolumeBindingMode: &mode}
	d.add(c)
	return c
}

// csiNodes tells what drivers run on the nodes and how much they bear.
func (d *draw) csiNodes(most int) {
	for _, n := range d.c.Nodes {
		if d.chance(10) {
			continue
		}
		c := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: types.UID("uid-csi-" + n.Name)}}
		if d.chance(60) {
			c.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"}
		}
		for _, driver := range []string{"one.example.com", "two.example.com", "ebs.csi.aws.com", "pd.csi.storage.gke.io"} {
			if !d.chance(75) {
				continue
			}
			of := storagev1.CSINodeDriver{Name: driver, NodeID: n.Name}
			if d.chance(80) {
				count := int32(d.IntN(most + 1))
				of.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
			}
			c.Spec.Drivers = append(c.Spec.Drivers, of)
		}
		d.add(c)
	}
}

func limits(d *draw) {
	d.nodes(4, 12)
	d.csiNodes(4)
	d.class("lazy", "one.example.com", storagev1.VolumeBindingWaitForFirstConsumer)
	d.class("ebs", "kubernetes.io/aws-ebs", storagev1.VolumeBindingWaitForFirstConsumer)
	var claims []string
	for i := range 14 {
		name := fmt.Sprint("claim-", i)
		claims = append(claims, name)
		switch d.IntN(5) {
		case 0:
			d.claim(name, "", pick(d, "lazy", "ebs", "missing"), v1.ReadWriteOnce)
		case 1:
			d.claim(name, "pv-"+name, "ebs", v1.ReadWriteOnce)
			v := d.volume("pv-"+name, name, "ebs", v1.ReadWriteOnce, nil)
			v.Spec.CSI = nil
			v.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: fmt.Sprintf("aws://zone-0/vol-%04d", i)}
		default:
			d.claim(name, "pv-"+name, "", v1.ReadWriteMany)
			if d.chance(95) {
				d.volume("pv-"+name, name, "", v1.ReadWriteMany, nil)
			}
		}
	}
	if d.chance(40) {
		for i, n := range d.c.Nodes {
			if d.chance(40) {
				handle := "pv-" + pick(d, claims...)
				d.add(&storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("attachment-", i), UID: types.UID(fmt.Sprint("uid-va-", i))},
					Spec: storagev1.VolumeAttachmentSpec{Attacher: pick(d, "one.example.com", "two.example.com"), NodeName: n.Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &handle}}})
			}
		}
	}
	use := func(p *v1.Pod) {
		for _, c := range some(d, d.IntN(4), claims...) {
			d.mountClaim(p, c)
		}
		if d.chance(15) {
			d.mount(p, v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: fmt.Sprintf("vol-%04d", d.IntN(9))}})
		}
		if d.chance(8) {
			d.mount(p, v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: fmt.Sprint("pd-", d.IntN(9)), ReadOnly: true}})
		}
		if d.chance(8) {
			d.mount(p, v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: "one.example.com"}})
		}
	}
	d.occupy(3, use)
	d.ask(use)
}

func volumeZones(d *draw) {
	d.nodes(5, 15)
	for _, n := range d.c.Nodes {
		if n.Labels[zone] != "" && d.chance(20) { // a node of old
			n.Labels[oldZone], n.Labels[v1.LabelFailureDomainBetaRegion] = n.Labels[zone], n.Labels[region]
			if d.chance(50) {
				delete(n.Labels, zone)
				delete(n.Labels, region)
			}
		}
	}
	d.class("now", "one.example.com", storagev1.VolumeBindingImmediate)
	d.class("lazy", "one.example.com", storagev1.VolumeBindingWaitForFirstConsumer)
	for i := range 8 {
		name := fmt.Sprint("claim-", i)
		if d.chance(15) {
			d.claim(name, "", pick(d, "now", "lazy", "missing", ""), v1.ReadWriteOnce)
			continue
		}
		d.claim(name, "pv-"+name, "now", v1.ReadWriteOnce)
		if d.chance(8) {
			continue
		}
		v := d.volume("pv-"+name, name, "now", v1.ReadWriteOnce, nil)
		v.Labels = map[string]string{}
		if d.chance(80) {
			v.Labels[pick(d, zone, zone, oldZone)] = pick(d, "zone-0", "zone-1", "zone-0__zone-1", "zone-2__zone-1__zone-3", "zone-9", "__", "zone-0__")
		}
		if d.chance(40) {
			v.Labels[pick(d, region, v1.LabelFailureDomainBetaRegion)] = pick(d, "region-0", "region-1", "region-0__region-1")
		}
	}
	d.ask(func(p *v1.Pod) {
		for range 1 + d.IntN(2) {
			d.mountClaim(p, fmt.Sprint("claim-", d.IntN(9)))
		}
	})
}

func (d *draw) volumeAffinity() *v1.VolumeNodeAffinity {
	if d.chance(30) {
		return nil
	}
	r := v1.NodeSelectorRequirement{Key: zone, Operator: v1.NodeSelectorOpIn, Values: some(d, 1+d.IntN(2), "zone-0", "zone-1", "zone-2")}
	if d.chance(40) {
		r = v1.NodeSelectorRequirement{Key: hostname, Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprintf("node-%02d", d.IntN(len(d.c.Nodes)))}}
	}
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{r}}}}}
}

func binding(d *draw) {
	d.nodes(5, 15)
	d.class("now", "one.example.com", storagev1.VolumeBindingImmediate)
	lazy := d.class("lazy", "one.example.com", storagev1.VolumeBindingWaitForFirstConsumer)
	if d.chance(40) {
		lazy.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: zone, Values: some(d, 2, "zone-0", "zone-1", "zone-2")}}}}
	}
	d.class("local", "kubernetes.io/no-provisioner", storagev1.VolumeBindingWaitForFirstConsumer)
	if d.chance(50) {
		yes := true
		d.add(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "one.example.com", UID: "uid-driver"}, Spec: storagev1.CSIDriverSpec{StorageCapacity: &yes}})
		for i := range d.IntN(5) {
			room := resource.MustParse(fmt.Sprintf("%dGi", d.IntN(12)))
			c := &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: fmt.Sprint("capacity-", i), UID: types.UID(fmt.Sprint("uid-capacity-", i))}, StorageClassName: "lazy", Capacity: &room,
				NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{zone: fmt.Sprint("zone-", d.IntN(3))}}}
			if d.chance(30) {
				most := resource.MustParse(fmt.Sprintf("%dGi", d.IntN(12)))
				c.MaximumVolumeSize = &most
			}
			d.add(c)
		}
	}
	// Sizes are all different, so that the smallest that fits is one volume.
	for i := range d.IntN(10) {
		v := d.volume(fmt.Sprint("free-", i), "", pick(d, "local", "local", "lazy"), pick(d, v1.ReadWriteOnce, v1.ReadWriteOnce, v1.ReadWriteMany), d.volumeAffinity())
		v.Spec.Capacity[v1.ResourceStorage] = quantity("%dMi", 1024*(1+d.IntN(12))+i)
		if d.chance(30) {
			v.Labels = map[string]string{"speed": pick(d, "fast", "slow")}
		}
		if d.chance(8) {
			v.Status.Phase = v1.VolumeReleased
		}
		if d.chance(10) {
			v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "blue", Name: fmt.Sprint("claim-", d.IntN(10))}
		}
	}
	for i := range 10 {
		name := fmt.Sprint("claim-", i)
		switch d.IntN(8) {
		case 0:
			d.claim(name, "", pick(d, "now", "missing"), v1.ReadWriteOnce)
		case 1, 2:
			d.claim(name, "pv-"+name, pick(d, "now", "lazy"), v1.ReadWriteOnce)
			if d.chance(90) {
				d.volume("pv-"+name, name, "now", v1.ReadWriteOnce, d.volumeAffinity())
			}
		default:
			c := d.claim(name, "", pick(d, "lazy", "local", "local"), pick(d, v1.ReadWriteOnce, v1.ReadWriteOnce, v1.ReadWriteMany))
			if d.chance(20) {
				c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"speed": pick(d, "fast", "slow")}}
			}
			if d.chance(8) {
				c.Annotations = map[string]string{"volume.kubernetes.io/selected-node": fmt.Sprintf("node-%02d", d.IntN(len(d.c.Nodes)))}
			}
			if d.chance(4) {
				c.Status.Phase = v1.ClaimLost
			}
			if d.chance(4) {
				at := metav1.NewTime(time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC))
				c.DeletionTimestamp, c.Finalizers = &at, []string{"kubernetes.io/pvc-protection"}
			}
		}
	}
	d.ask(func(p *v1.Pod) {
		for range 1 + d.IntN(2) {
			name := fmt.Sprint("claim-", d.IntN(11)) // the last is not there
			if !mounts(p, name) {
				d.mountClaim(p, name)
			}
		}
	})
}

func mounts(p *v1.Pod, claim string) bool {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
			return true
		}
	}
	return false
}
