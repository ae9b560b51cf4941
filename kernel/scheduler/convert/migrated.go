package convert

import (
	v1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/csi-translation-lib/plugins"
	"k8s.io/klog/v2"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"
)

// migrated are the in-tree plugins whose volumes CSI drivers have taken over for
// good, with the drivers. Azure files and vSphere disks, which the library can
// translate too, are not among those that kube-scheduler translates.
var migrated = map[string]string{
	plugins.AWSEBSInTreePluginName:    plugins.AWSEBSDriverName,
	plugins.GCEPDInTreePluginName:     plugins.GCEPDDriverName,
	plugins.AzureDiskInTreePluginName: plugins.AzureDiskDriverName,
	plugins.CinderInTreePluginName:    plugins.CinderDriverName,
	plugins.PortworxVolumePluginName:  plugins.PortworxDriverName,
}

// translate adds what a pod's in-tree volume is to the CSI driver that has taken
// over: done here, so that modules hold no translations.
func translate(out *contractv1.Volume, volume *v1.Volume, namespace string) {
	s := &volume.VolumeSource
	if s.AWSElasticBlockStore == nil && s.GCEPersistentDisk == nil && s.AzureDisk == nil && s.Cinder == nil && s.PortworxVolume == nil {
		return // the library would look at seven plugins for each volume of each pod
	}
	t := csitranslation.New()
	name, err := t.GetInTreePluginNameFromSpec(nil, volume)
	if err != nil || migrated[name] == "" {
		return
	}
	out.InTreePlugin, out.Driver = name, migrated[name]
	if pv, err := t.TranslateInTreeInlineVolumeToCSI(klog.Background(), volume, namespace); err == nil && pv.Spec.CSI != nil {
		out.Handle = pv.Spec.CSI.VolumeHandle
	}
}

// translatePersistent does the same for a persistent volume, and translates its
// node affinity.
func translatePersistent(out *contractv1.Object, volume *v1.PersistentVolume) {
	if csi := volume.Spec.CSI; csi != nil {
		out.Volume.Driver, out.Volume.Handle = csi.Driver, csi.VolumeHandle
		return
	}
	t := csitranslation.New()
	name, err := t.GetInTreePluginNameFromSpec(volume, nil)
	if err != nil || migrated[name] == "" {
		return
	}
	out.Volume.InTreePlugin, out.Volume.Driver = name, migrated[name]
	pv, err := t.TranslateInTreePVToCSI(klog.Background(), volume)
	if err != nil || pv.Spec.CSI == nil {
		out.MigratedNodeAffinity = out.NodeAffinity
		return
	}
	out.Volume.Handle = pv.Spec.CSI.VolumeHandle
	out.MigratedNodeAffinity = volumeAffinity(pv)
}

func volumeAffinity(volume *v1.PersistentVolume) *contractv1.NodeAffinity {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return nil
	}
	return &contractv1.NodeAffinity{HasRequired: true, Required: convertTerms(affinity.Required.NodeSelectorTerms)}
}
