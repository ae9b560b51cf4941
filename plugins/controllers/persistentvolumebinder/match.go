package persistentvolumebinder

import (
	"errors"
	"math/bits"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// match returns the volume that fits a claim best, nil if none fits: one that is bound to the
// claim already, else the smallest that is large enough. Volumes with the fewest access modes
// beside those asked for come first. With delay only those of the first kind are found: the
// scheduler chooses among the others.
func (k *keeper) match(claim *corev1.PersistentVolumeClaim, delay bool) (*corev1.PersistentVolume, error) {
	wanted := modesOf(claim.Spec.AccessModes)
	var sets []modeSet
	for _, key := range k.volumes.store.ListIndexFuncValues(byModes) {
		if n, err := strconv.ParseUint(key, 10, 8); err == nil && modeSet(n)&wanted == wanted {
			sets = append(sets, modeSet(n))
		}
	}
	slices.SortFunc(sets, func(a, b modeSet) int {
		if d := bits.OnesCount8(uint8(a)) - bits.OnesCount8(uint8(b)); d != 0 {
			return d
		}
		return int(a) - int(b)
	})
	for _, set := range sets {
		objs, err := k.volumes.store.ByIndex(byModes, set.key())
		if err != nil {
			return nil, err
		}
		volumes := make([]*corev1.PersistentVolume, 0, len(objs))
		for _, obj := range objs {
			if pv, ok := obj.(*corev1.PersistentVolume); ok {
				volumes = append(volumes, pv)
			}
		}
		found, err := volume.FindMatchingVolume(claim, volumes, nil, nil, delay, true)
		if err != nil || found != nil {
			return found, err
		}
	}
	return nil, nil
}

// satisfies says why a volume that a claim names is not for it.
func satisfies(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	wanted, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], pv.Spec.Capacity[corev1.ResourceStorage]
	switch {
	case pv.DeletionTimestamp != nil:
		return errors.New("the volume is marked for deletion " + strconv.Quote(pv.Name))
	case has.Value() < wanted.Value():
		return errors.New("requested PV is too small")
	case volume.GetPersistentVolumeClass(pv) != volume.GetPersistentVolumeClaimClass(claim):
		return errors.New("storageClassName does not match")
	case ptr.Deref(claim.Spec.VolumeAttributesClassName, "") != ptr.Deref(pv.Spec.VolumeAttributesClassName, ""):
		return errors.New("volumeAttributesClassName does not match")
	case volume.CheckVolumeModeMismatches(&claim.Spec, &pv.Spec):
		return errors.New("incompatible volumeMode")
	case !volume.CheckAccessModes(claim, pv):
		return errors.New("incompatible accessMode")
	}
	return nil
}
