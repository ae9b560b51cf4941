package convert

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Volumes that a CSI driver has taken over are told of as its own, those of pods
// and persistent ones, with the affinity that they have then.
func TestMigratedVolumes(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}, Spec: v1.PodSpec{
		Volumes: []v1.Volume{
			{Name: "ebs", VolumeSource: v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://zone/vol-1"}}},
			{Name: "file", VolumeSource: v1.VolumeSource{AzureFile: &v1.AzureFileVolumeSource{ShareName: "s"}}},
		},
	}}
	got := convertPod(pod)
	if v := got.Volumes[0]; v.Type != "awsElasticBlockStore" || v.InTreePlugin != "kubernetes.io/aws-ebs" || v.Driver != "ebs.csi.aws.com" || v.Handle != "vol-1" {
		t.Errorf("%v", v)
	}
	if v := got.Volumes[1]; v.InTreePlugin != "" || v.Driver != "" {
		t.Errorf("%v", v)
	}
	if got.Name != "" || got.Uid != "" {
		t.Errorf("a class has a name: %v", got)
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", Labels: map[string]string{v1.LabelTopologyZone: "z"}}}
	pv.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-2"}
	o, err := Object(pv)
	if err != nil {
		t.Fatal(err)
	}
	if o.Volume.Driver != "ebs.csi.aws.com" || o.Volume.Handle != "vol-2" || o.NodeAffinity != nil ||
		o.MigratedNodeAffinity.GetRequired()[0].MatchExpressions[0].Key != "topology.ebs.csi.aws.com/zone" {
		t.Errorf("%v", o)
	}
	for provisioner, want := range map[string]string{"kubernetes.io/gce-pd": "pd.csi.storage.gke.io", "kubernetes.io/azure-file": "", "x.example.com": ""} {
		if o, err := Object(&storagev1.StorageClass{Provisioner: provisioner}); err != nil || o.StorageClass.Driver != want {
			t.Errorf("%s: %v, %v", provisioner, o, err)
		}
	}
}

// A pod with a volume whose claim is made for it is of no other's class.
func TestEphemeralVolumesHaveTheirPod(t *testing.T) {
	make := func(name string) *Pod {
		s, err := NewPod(&v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-of-it"},
			Spec:       v1.PodSpec{Volumes: []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	one, two := make("one"), make("two")
	if one.Key == two.Key || one.Message.Volumes[0].Id != "one-scratch" || one.Message.Name != "one" || one.Message.Uid != "uid-of-it" || !one.Claims {
		t.Errorf("%v", one.Message)
	}
}
