package convert

import (
	v1 "k8s.io/api/core/v1"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// ephemeralVolume is the type of volumes whose claim is made for the pod.
const ephemeralVolume = "ephemeral"

// convertVolume names a volume's type and, where it has one, its disk; of an
// ephemeral one the claim that is made for it.
func convertVolume(volume *v1.Volume, namespace, podName string) *contractv1.Volume {
	out := &contractv1.Volume{Name: volume.Name}
	switch s := &volume.VolumeSource; {
	case s.GCEPersistentDisk != nil:
		out.Type, out.Id, out.ReadOnly = "gcePersistentDisk", s.GCEPersistentDisk.PDName, s.GCEPersistentDisk.ReadOnly
	case s.AWSElasticBlockStore != nil:
		out.Type, out.Id, out.ReadOnly = "awsElasticBlockStore", s.AWSElasticBlockStore.VolumeID, s.AWSElasticBlockStore.ReadOnly
	case s.RBD != nil:
		out.Type, out.Id, out.ReadOnly, out.Monitors = "rbd", s.RBD.RBDPool+"/"+s.RBD.RBDImage, s.RBD.ReadOnly, s.RBD.CephMonitors
	case s.PersistentVolumeClaim != nil:
		out.Type, out.Id, out.ReadOnly = "persistentVolumeClaim", s.PersistentVolumeClaim.ClaimName, s.PersistentVolumeClaim.ReadOnly
	case s.ConfigMap != nil:
		out.Type, out.Id = "configMap", s.ConfigMap.Name
	case s.Secret != nil:
		out.Type, out.Id = "secret", s.Secret.SecretName
	case s.EmptyDir != nil:
		out.Type = "emptyDir"
	case s.HostPath != nil:
		out.Type, out.Id = "hostPath", s.HostPath.Path
	case s.Projected != nil:
		out.Type = "projected"
	case s.DownwardAPI != nil:
		out.Type = "downwardAPI"
	case s.NFS != nil:
		out.Type, out.Id, out.ReadOnly = "nfs", s.NFS.Server+":"+s.NFS.Path, s.NFS.ReadOnly
	case s.ISCSI != nil:
		out.Type, out.Id, out.ReadOnly = "iscsi", s.ISCSI.IQN, s.ISCSI.ReadOnly
	case s.CSI != nil:
		out.Type, out.Id = "csi", s.CSI.Driver
		out.ReadOnly = s.CSI.ReadOnly != nil && *s.CSI.ReadOnly
	case s.AzureDisk != nil:
		out.Type, out.Id = "azureDisk", s.AzureDisk.DiskName
		out.ReadOnly = s.AzureDisk.ReadOnly != nil && *s.AzureDisk.ReadOnly
	case s.Ephemeral != nil:
		out.Type, out.Id = ephemeralVolume, podName+"-"+volume.Name
	case s.Image != nil:
		out.Type, out.Id = "image", s.Image.Reference
	case s.FC != nil:
		out.Type, out.ReadOnly = "fc", s.FC.ReadOnly
	case s.CephFS != nil:
		out.Type, out.ReadOnly = "cephfs", s.CephFS.ReadOnly
	}
	translate(out, volume, namespace)
	return out
}

// convertPersistentVolume does the same for what a persistent volume is made
// of. Some of its sources have the claim's namespace beside the name, so they
// are other types than a pod's.
func convertPersistentVolume(volume *v1.PersistentVolume) *contractv1.Volume {
	out := &contractv1.Volume{Name: volume.Name}
	switch s := &volume.Spec.PersistentVolumeSource; {
	case s.GCEPersistentDisk != nil:
		out.Type, out.Id, out.ReadOnly = "gcePersistentDisk", s.GCEPersistentDisk.PDName, s.GCEPersistentDisk.ReadOnly
	case s.AWSElasticBlockStore != nil:
		out.Type, out.Id, out.ReadOnly = "awsElasticBlockStore", s.AWSElasticBlockStore.VolumeID, s.AWSElasticBlockStore.ReadOnly
	case s.RBD != nil:
		out.Type, out.Id, out.ReadOnly, out.Monitors = "rbd", s.RBD.RBDPool+"/"+s.RBD.RBDImage, s.RBD.ReadOnly, s.RBD.CephMonitors
	case s.HostPath != nil:
		out.Type, out.Id = "hostPath", s.HostPath.Path
	case s.Local != nil:
		out.Type, out.Id = "local", s.Local.Path
	case s.NFS != nil:
		out.Type, out.Id, out.ReadOnly = "nfs", s.NFS.Server+":"+s.NFS.Path, s.NFS.ReadOnly
	case s.ISCSI != nil:
		out.Type, out.Id, out.ReadOnly = "iscsi", s.ISCSI.IQN, s.ISCSI.ReadOnly
	case s.CSI != nil:
		out.Type, out.Id, out.ReadOnly = "csi", s.CSI.Driver+"/"+s.CSI.VolumeHandle, s.CSI.ReadOnly
	case s.AzureDisk != nil:
		out.Type, out.Id = "azureDisk", s.AzureDisk.DiskName
		out.ReadOnly = s.AzureDisk.ReadOnly != nil && *s.AzureDisk.ReadOnly
	case s.FC != nil:
		out.Type, out.ReadOnly = "fc", s.FC.ReadOnly
	case s.CephFS != nil:
		out.Type, out.ReadOnly = "cephfs", s.CephFS.ReadOnly
	}
	return out
}
