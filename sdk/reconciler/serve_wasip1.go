//go:build wasip1

package reconciler

import (
	"encoding/json"
	"unsafe"

	"pintle.dev/pintle/sdk"
)

func announce(c Controller) {
	owns := make([]string, len(c.Owns))
	for i, o := range c.Owns {
		owns[i] = o.String()
	}
	sdk.Announce(sdk.Announcement{
		Name: c.Name, Kind: sdk.KindController, For: c.For.String(), Owns: owns, Configure: c.Configure,
		Reconcile: func(request []byte) (int64, error) {
			var key Key
			if err := json.Unmarshal(request, &key); err != nil {
				return 0, err
			}
			result, err := c.call(&Host{}, key)
			return result.RequeueAfter.Milliseconds(), err
		},
	})
}

//go:wasmimport pintle_host get
func hostGet(request unsafe.Pointer, size uint32) uint32

//go:wasmimport pintle_host list
func hostList(request unsafe.Pointer, size uint32) uint32

//go:wasmimport pintle_host create
func hostCreate(request unsafe.Pointer, size uint32) uint32

//go:wasmimport pintle_host update
func hostUpdate(request unsafe.Pointer, size uint32) uint32

//go:wasmimport pintle_host patch
func hostPatch(request unsafe.Pointer, size uint32) uint32

//go:wasmimport pintle_host delete
func hostDelete(request unsafe.Pointer, size uint32) uint32

//go:wasmimport pintle_host event
func hostEvent(request unsafe.Pointer, size uint32) uint32

//go:wasmimport pintle_host log
func hostLog(record unsafe.Pointer, size uint32)

//go:wasmimport pintle_host answer
func hostAnswer(into unsafe.Pointer, size uint32)

// transport of a module: the imports above need nothing.
type transport struct{}

func callGet(_ *Host, r []byte) []byte    { return answer(hostGet(pointer(r))) }
func callList(_ *Host, r []byte) []byte   { return answer(hostList(pointer(r))) }
func callCreate(_ *Host, r []byte) []byte { return answer(hostCreate(pointer(r))) }
func callUpdate(_ *Host, r []byte) []byte { return answer(hostUpdate(pointer(r))) }
func callPatch(_ *Host, r []byte) []byte  { return answer(hostPatch(pointer(r))) }
func callDelete(_ *Host, r []byte) []byte { return answer(hostDelete(pointer(r))) }
func callEvent(_ *Host, r []byte) []byte  { return answer(hostEvent(pointer(r))) }
func callLog(_ *Host, r []byte) []byte    { hostLog(pointer(r)); return nil }

func pointer(data []byte) (unsafe.Pointer, uint32) {
	return unsafe.Pointer(unsafe.SliceData(data)), uint32(len(data))
}

// answer fetches what the last function answered. The host says its size first,
// so that the module itself makes room for it.
func answer(size uint32) []byte {
	data := make([]byte, size)
	if size > 0 {
		hostAnswer(pointer(data))
	}
	return data
}
