// Package gc removes dead containers and the sandboxes and log directories they leave (CGC-1 … CGC-10): all of pods
// that no longer exist, and of the others all but the newest few.
//
// Only what carries pod labels is ever touched (CGC-3). The choice is pure; one pass is one call of Collect, which the
// agent makes every minute (KLT-33). It must import only kernel/node/cri of its siblings.
package gc
