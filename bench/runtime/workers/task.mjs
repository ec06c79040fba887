// For Piscina and tinypool.
export const empty = () => undefined;
export const echo = (value) => value;
