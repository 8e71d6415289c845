package abi

// sortTexts sorts the keys of a map, which are mostly few. What slices.Sort has for many
// makes a module 30 KB larger.
func sortTexts(list []string) {
	const few = 12
	n := len(list)
	if n > few { // heap sort
		for i := n/2 - 1; i >= 0; i-- {
			siftDown(list, i)
		}
		for end := n - 1; end > 0; end-- {
			list[0], list[end] = list[end], list[0]
			siftDown(list[:end], 0)
		}
		return
	}
	for i := 1; i < n; i++ {
		one, at := list[i], i
		for ; at > 0 && list[at-1] > one; at-- {
			list[at] = list[at-1]
		}
		list[at] = one
	}
}

// siftDown moves element i of a heap, whose greatest is first, to its place.
func siftDown(heap []string, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child+1] > heap[child] {
			child++
		}
		if heap[i] >= heap[child] {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
