// Package yamltree finds and sets places in YAML that was read as a tree of nodes, where the
// lines of the file still are known. It must not import anything of the kernel.
package yamltree
